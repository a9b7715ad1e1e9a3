//! Whom monitors run as: each machine gets a user that nobody else on this host is, so that one monitor can neither
//! signal nor trace another, nor open its files.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Uid, getpriority_user};

use super::VmId;
use crate::host::process::RunAs;

/// Users for monitors, which need no entry in `/etc/passwd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    /// The first user and group id.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

impl UserRange {
    /// Far above what distributions and login services hand out.
    pub const DEFAULT: Self = Self { first: 1_879_048_192, count: 65_536 };
}

/// The users of one supervisor's monitors.
#[derive(Debug, Clone)]
pub(super) struct Users {
    range: UserRange,
    taken: Arc<Mutex<BTreeSet<u32>>>,
}

impl Users {
    pub(super) fn new(range: UserRange) -> Self {
        Self { range, taken: Arc::default() }
    }

    /// A user that no machine of this supervisor has, and no process on this host; `None` when there is none left.
    /// The search begins at random, so that two supervisors hardly ever look at the same one at the same time.
    pub(super) fn take(&self, id: VmId) -> Option<UserLease> {
        let start = id.spread(self.range.count);
        let mut taken = locked(&self.taken);
        let candidates = (start..self.range.count).chain(0..start);
        let uid = candidates
            .map(|offset| self.range.first.saturating_add(offset))
            .find(|uid| !taken.contains(uid) && !is_somebody(*uid))?;
        taken.insert(uid);
        Some(UserLease { uid, taken: Arc::clone(&self.taken) })
    }
}

/// Whether a process of this user runs. The kernel knows users by what they run, so this is one look for most.
fn is_somebody(uid: u32) -> bool {
    getpriority_user(Uid::from_raw(uid)) != Err(rustix::io::Errno::SRCH)
}

/// A user for one machine, free again when this is dropped.
#[derive(Debug)]
pub(super) struct UserLease {
    uid: u32,
    taken: Arc<Mutex<BTreeSet<u32>>>,
}

impl UserLease {
    pub(super) fn run_as(&self) -> RunAs {
        RunAs { uid: self.uid, gid: self.uid }
    }
}

impl Drop for UserLease {
    fn drop(&mut self) {
        locked(&self.taken).remove(&self.uid);
    }
}

fn locked(taken: &Mutex<BTreeSet<u32>>) -> MutexGuard<'_, BTreeSet<u32>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    fn any() -> VmId {
        VmId::random().expect("random bytes")
    }

    #[test]
    fn no_two_living_machines_have_the_same_user() {
        let users = Users::new(UserRange { first: 1_900_000_000, count: 8 });
        let mut leases: Vec<_> = (0..8).map(|_| users.take(any()).expect("there are eight")).collect();
        let ids: BTreeSet<u32> = leases.iter().map(|lease| lease.run_as().uid).collect();
        assert_eq!(ids.len(), 8, "{ids:?}");
        assert!(ids.iter().all(|id| (1_900_000_000..1_900_000_008).contains(id)));
        assert!(users.take(any()).is_none(), "there is no ninth");
        let free = leases.pop().expect("eight").run_as();
        assert_eq!(users.take(any()).expect("free again").run_as(), free);
    }

    #[test]
    fn a_user_that_somebody_elses_process_has_is_left_alone() {
        if !nix::unistd::geteuid().is_root() {
            rekindle_test_support::skip!("becoming another user needs root");
        }
        let range = UserRange { first: 1_900_001_000, count: 2 };
        let mut other = Command::new("sleep").arg("1000").uid(range.first).spawn().expect("started");
        let users = Users::new(range);
        let only = users.take(any()).expect("one is free");
        let none = users.take(any()).is_none();
        other.kill().expect("killed");
        other.wait().expect("gone");
        assert_eq!(only.run_as().uid, range.first + 1);
        assert!(none, "the other one is in use");
        assert!(users.take(any()).is_some(), "and free when its process is gone");
    }
}
