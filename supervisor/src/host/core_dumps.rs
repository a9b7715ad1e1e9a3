//! Keeps what this process holds in its memory from being written to a disk when it crashes, or read by a process of the
//! same user.
//!
//! Called before a credential is read, by whoever reads one. The limit alone would not do: the kernel hands a core to a
//! program of the host's (`core_pattern` with a pipe) whatever the limit is, and some of them keep it all the same. Children
//! inherit the limit; whether they can be looked at is decided anew when they execute their program.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};

/// Forbids them for this process, for good.
///
/// # Errors
/// When the kernel says no.
pub fn forbid() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_dumpable(false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    //! In a process of its own: what is forbidden stays so.

    use nix::sys::resource::getrlimit;
    use rekindle_test_support::own_process::is_alone;

    use super::*;

    #[test]
    fn no_core_is_written_and_nobody_of_the_same_user_looks() {
        if !is_alone("host::core_dumps::tests::no_core_is_written_and_nobody_of_the_same_user_looks") {
            return;
        }
        prctl::set_dumpable(true).expect("as programs are");
        forbid().expect("forbidden");
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).expect("a limit"), (0, 0));
        assert!(!prctl::get_dumpable().expect("a flag"));
        // What the supervisor reads of itself it still can.
        for own in ["/proc/self/exe", "/proc/thread-self/ns/pid"] {
            std::fs::File::open(own).expect("its own");
        }
        let file = std::fs::File::open("/dev/null").expect("a file");
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        std::fs::File::open(link).expect("its own");
    }
}
