//! What to start and under which restrictions: plain data for [`super::spawn`].
//!
//! Filled in by engines. Nothing here touches the system.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::host::cgroup::CgroupJoin;
use crate::host::open_guard::OpenGrant;

/// The unprivileged user and group a child becomes before it runs its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id; supplementary groups are dropped.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A file or directory that appears at another place, for the child alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// What is there already.
    pub source: PathBuf,
    /// Where it appears: a file or directory that exists.
    pub target: PathBuf,
    /// Whether it can be written through the new place.
    pub writable: bool,
}

/// Namespaces of the child's own: processes, mounts and network. Everything that starts in them ends
/// with the child, and so do the binds; nothing is left to undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// What is made visible before the program starts, in this order.
    pub binds: Vec<Bind>,
}

/// One program to start.
///
/// The child gets no environment but what is given here, its own session, no core dumps, no way
/// to gain privileges, and dies when the supervisor dies.
#[derive(Debug, Default)]
pub struct ProcessSpec {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// The directory it starts in; the root when none is given.
    pub directory: Option<PathBuf>,
    /// Descriptors that stay open in the child *under the same number*, so that arguments can name
    /// them. They are closed in the supervisor once the child runs.
    pub inherit: Vec<OwnedFd>,
    /// The control group the child enters before it runs a single instruction of the program.
    pub cgroup: Option<CgroupJoin>,
    /// Whom to become; `None` keeps the supervisor's user.
    pub run_as: Option<RunAs>,
    /// When set, the child can open nothing for writing except through these grants.
    pub open_guard: Option<Vec<OpenGrant>>,
    /// When set, the child starts in namespaces of its own, and whatever it starts there ends with it.
    pub namespaces: Option<Namespaces>,
}
