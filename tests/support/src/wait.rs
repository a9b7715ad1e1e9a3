//! Waiting for what is sure to happen and tells nobody: a process that is gone, a file that is there. What has an event
//! is awaited instead.

use std::time::{Duration, Instant};

/// Longer than anything takes that works, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// How often to look.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until something is so.
///
/// # Panics
/// When it never is.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    until_some(what, || so().then_some(())).await;
}

/// Waits until there is something.
///
/// # Panics
/// When there never is.
pub async fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    until_answer(what, async || look()).await
}

/// The same, where looking takes a while.
///
/// # Panics
/// When there never is.
pub async fn until_answer<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "it never happened: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// As [`until`], in a test without a runtime.
///
/// # Panics
/// When it never is.
pub fn block_until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "it never happened: {what}");
        std::thread::sleep(LOOK);
    }
}

/// What a future gives, if it does in time.
///
/// # Panics
/// When it does not.
pub async fn in_time<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, doing).await.unwrap_or_else(|_| panic!("it never happened: {what}"))
}
