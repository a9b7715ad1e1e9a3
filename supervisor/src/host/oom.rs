//! The out-of-memory killer: a service manager may have it spare the supervisor (`OOMScoreAdjust=`), which its
//! monitors would inherit. They are what should go first, so a protection is taken from them.

use std::fs;
use std::io;

/// The adjustment of a process that nobody gave one.
const NONE: &str = "0";

/// Takes this process's protection, if it has one, from a child that runs its program. An exposure stays.
///
/// # Errors
/// When the kernel says no.
pub(crate) fn expose(child: u32) -> io::Result<()> {
    take(&fs::read_to_string("/proc/self/oom_score_adj")?, child)
}

fn take(own: &str, child: u32) -> io::Result<()> {
    if own.starts_with('-') {
        fs::write(format!("/proc/{child}/oom_score_adj"), NONE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! In a process of its own: the adjustment is the whole process's.

    use std::ffi::OsString;

    use rekindle_test_support::own_process::is_alone;

    use super::take;
    use crate::host::process::{ProcessSpec, spawn};

    const NAME: &str = "host::oom::tests::a_spared_supervisor_has_monitors_that_are_not";

    /// The adjustment of a child while it runs, and after `change`.
    async fn childs_adjustment(change: impl Fn(u32)) -> [String; 2] {
        let args = vec![OsString::from("1000")];
        let spec = ProcessSpec { program: "/bin/sleep".into(), args, ..ProcessSpec::default() };
        let process = spawn(spec).await.expect("started");
        let pid = process.identity().pid;
        let read = || std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it runs");
        let first = read();
        change(pid);
        let both = [first, read()].map(|text| text.trim().to_owned());
        process.kill().await;
        both
    }

    #[test]
    fn a_spared_supervisor_has_monitors_that_are_not() {
        if !is_alone(NAME) {
            return;
        }
        let adjust = |to: &str| std::fs::write("/proc/self/oom_score_adj", to);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        adjust("100").expect("anyone may be more exposed");
        // An exposure is inherited and stays; a protection goes.
        let exposed = runtime.block_on(childs_adjustment(|pid| take("100", pid).expect("done")));
        assert_eq!(exposed, ["100", "100"]);
        let spared = runtime.block_on(childs_adjustment(|pid| take("-900", pid).expect("done")));
        assert_eq!(spared, ["100", "0"]);
        if adjust("-900").is_err() {
            rekindle_test_support::report_skip(NAME, "this machine lets nobody protect a process");
            return;
        }
        assert_eq!(runtime.block_on(childs_adjustment(|_| {})), ["0", "0"]);
    }
}
