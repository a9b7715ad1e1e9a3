//! The limit of open files: raised to what the host allows for the supervisor, and given back to its children.
//!
//! A descriptor is taken by every connection and several by every machine; the usual soft limit of 1024 is an
//! old courtesy to programs that use `select`, not a bound on what a service needs. Children get the limit they
//! would have had: monitors are somebody else's programs.

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// What the soft limit was before [`raise`].
static BEFORE: OnceLock<rlim_t> = OnceLock::new();

/// Raises the soft limit of this process to its hard limit, and says what that is.
///
/// # Errors
/// When the kernel says no.
pub fn raise() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    BEFORE.get_or_init(|| soft);
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// The limits of a child, where they differ from this process's: what to give back to it.
pub(crate) fn of_children() -> Option<(rlim_t, rlim_t)> {
    let soft = *BEFORE.get()?;
    let (now, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    (soft < now).then_some((soft, hard))
}

#[cfg(test)]
mod tests {
    //! In a process of its own for the limits: they are the whole process's.

    use std::ffi::OsString;
    use std::path::Path;

    use rekindle_test_support::own_process::is_alone;

    use super::*;
    use crate::host::process::{ProcessSpec, spawn};

    /// What a child says its limits are.
    async fn childs_limits(dir: &Path) -> String {
        let told = dir.join("limits");
        let line = format!("ulimit -Sn > {0}; ulimit -Hn >> {0}", told.display());
        let args = ["-c", &line].map(OsString::from).to_vec();
        let spec = ProcessSpec { program: "/bin/sh".into(), args, ..ProcessSpec::default() };
        let process = spawn(spec).await.expect("started");
        process.wait().await;
        std::fs::read_to_string(told).expect("told").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_supervisors_limit_is_raised_and_its_childrens_is_not() {
        if !is_alone("host::open_files::tests::the_supervisors_limit_is_raised_and_its_childrens_is_not") {
            return;
        }
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits");
        assert!(hard > 300, "this test needs a few files");
        setrlimit(Resource::RLIMIT_NOFILE, 256, hard).expect("lowered");
        assert_eq!(raise().expect("raised"), hard);
        assert_eq!(raise().expect("raised again"), hard);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).expect("limits"), (hard, hard));
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        // With more open than the child may have, which must not be in its way.
        let _many: Vec<_> =
            (0..260).map(|_| std::fs::File::open("/dev/null").expect("more than before")).collect();
        assert_eq!(runtime.block_on(childs_limits(dir.path())), format!("256 {hard}"));
    }
}
