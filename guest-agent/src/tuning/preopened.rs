//! The files that opening the gate writes to, found and opened before the snapshot.
//!
//! Between a quiesce and the restores of its snapshot nothing runs, so what was found then is still true. Every
//! clone would otherwise walk the same paths first, and walk them slowly.

use std::fs::File;
use std::io;
use std::thread;

use crate::agent::Agent;
use crate::cgroup::SandboxLimits;
use crate::restore::identity::Identity;
use crate::restore::{entropy, reseed};

/// Files that opening the gate writes to, open.
#[derive(Debug)]
pub struct GateFiles {
    /// The kernel's random generator.
    pub random: File,
    /// Whether interpreters wait for fresh randomness.
    pub interpreters: bool,
    /// Host name and machine-id.
    pub identity: Identity,
    /// The sandbox's limits.
    pub limits: SandboxLimits,
    /// Opened by the user, which the kernel knows for as long as this is open. Otherwise it would make what it keeps
    /// of a user for the first program, and take it down after the last.
    _user: Option<File>,
}

impl GateFiles {
    /// Finds and opens them now.
    ///
    /// # Errors
    /// When something the gate cannot do without is not there.
    pub fn open(agent: &Agent) -> io::Result<Self> {
        Ok(Self {
            random: entropy::open()?,
            interpreters: reseed::anyone()?,
            identity: Identity::find(),
            limits: agent.cgroups.sandbox_limits()?,
            _user: agent.default_account().ok().and_then(|account| open_as(account.uid)),
        })
    }
}

/// Opens a file as this user, where the agent may become it.
fn open_as(uid: u32) -> Option<File> {
    let open = move || {
        // SAFETY: the call takes plain numbers. It changes this thread alone, which opens a file and ends.
        // JUSTIFICATION: the C library's would change every thread of the agent.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) } == 0;
        if changed { File::open("/dev/null").ok() } else { None }
    };
    thread::spawn(open).join().ok().flatten()
}
