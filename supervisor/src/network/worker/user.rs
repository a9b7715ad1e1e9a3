//! Whom the worker becomes: a user that is nobody else's, where the supervisor may choose one.

use nix::unistd::{geteuid, getpid};
use rustix::process::{Uid, getpriority_user};

use crate::host::process::RunAs;

/// Users for workers, which need no entry in `/etc/passwd`: those after the monitors'.
const FIRST: u32 = 1_879_113_728;
/// How many there are.
const COUNT: u32 = 1024;
/// The group of all of them: what one worker has recorded is the next one's to read.
const GROUP: u32 = FIRST + COUNT;

/// The group that workers are in, where they are other users than this process.
pub(in crate::network) fn group() -> Option<u32> {
    geteuid().is_root().then_some(GROUP)
}

/// A user that runs nothing on this host; the supervisor's own where that is not root. The search begins at a place that
/// depends on the process, so that two supervisors hardly ever look at the same one at the same time.
pub(super) fn choose() -> Option<RunAs> {
    if !geteuid().is_root() {
        return None;
    }
    let start = getpid().as_raw().unsigned_abs() % COUNT;
    let mut candidates = (start..COUNT).chain(0..start).map(|offset| FIRST + offset);
    let uid = candidates.find(|uid| getpriority_user(Uid::from_raw(*uid)) == Err(rustix::io::Errno::SRCH));
    // With all of them taken there are as many workers already, and one more shares.
    let uid = uid.unwrap_or(FIRST + start);
    Some(RunAs { uid, gid: GROUP })
}
