//! Undoes what was made, on a thread of its own: killing and removing takes as long as the kernel and the disk do.
//!
//! A call that is given up half-way drops what it had, on a thread of the runtime that others wait for. Guards whose
//! end blocks hand it over here; one thread carries everything out, in the order it came in. Outside a runtime nobody
//! else waits, and it is done at once.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Runs `job` where it holds up nobody.
pub(crate) fn later(job: impl FnOnce() + Send + 'static) {
    if tokio::runtime::Handle::try_current().is_err() {
        return job();
    }
    if let Err(unsent) = worker().send(Box::new(job)) {
        (unsent.0)();
    }
}

/// Waits until all that was handed over before is done.
pub(crate) fn settle() {
    let (done, wait) = channel::<()>();
    if worker().send(Box::new(move || drop(done))).is_ok() {
        // Ends when the other side is dropped.
        let _ = wait.recv();
    }
}

fn worker() -> &'static Sender<Job> {
    static WORKER: OnceLock<Sender<Job>> = OnceLock::new();
    WORKER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        let run = move || jobs.into_iter().for_each(|job| job());
        thread::Builder::new()
            .name("rekindle-undo".into())
            .spawn(run)
            .expect("the operating system can start one thread");
        sender
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Holds up the thread until the answer is dropped, so that a test sees what waits for it.
    pub(crate) fn hold_up() -> Sender<()> {
        let (release, wait) = channel::<()>();
        let _ = worker().send(Box::new(move || {
            let _ = wait.recv();
        }));
        release
    }

    fn name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[test]
    fn in_a_runtime_another_thread_undoes_and_elsewhere_this_one() {
        let (told, heard) = channel();
        let tell = || {
            let told = told.clone();
            move || told.send(name()).expect("heard")
        };
        later(tell());
        assert_eq!(heard.try_recv().expect("done at once"), name());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { later(tell()) });
        settle();
        assert_eq!(heard.try_recv().expect("settled").as_deref(), Some("rekindle-undo"));
    }
}
