//! What a sandbox has used over its life, as a series of points. However long it lives, they are so many at most: when
//! there is no room for another, every second one goes, and from then on every second one is taken.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use super::caller::Caller;
use super::error::ServiceError;
use super::registry::Service;
use super::sandbox::{Sandbox, SandboxState, SandboxUsage};

/// Points of one sandbox.
const MAX_POINTS: usize = 240;

/// What a sandbox had used at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsagePoint {
    /// When.
    pub at: SystemTime,
    /// Processor time since its beginning.
    pub cpu: Duration,
    /// Memory it had then.
    pub memory_bytes: u64,
    /// What its disk took on the host.
    pub disk_bytes: u64,
}

impl SandboxUsage {
    /// What it comes to at this moment.
    #[must_use]
    pub fn point(&self) -> UsagePoint {
        UsagePoint {
            at: SystemTime::now(),
            cpu: Duration::from_micros(self.machine.cpu_usec.unwrap_or(0)),
            memory_bytes: self.machine.memory_bytes.unwrap_or(0),
            disk_bytes: self.disk_bytes.unwrap_or(0),
        }
    }
}

/// The points of one sandbox.
#[derive(Debug, Default)]
pub(super) struct History {
    points: Vec<UsagePoint>,
    /// Of so many that come one is taken, less one.
    skip: usize,
    /// So many have come since the last that was taken.
    skipped: usize,
}

impl History {
    fn push(&mut self, point: UsagePoint) {
        if self.skipped < self.skip {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        if self.points.len() == MAX_POINTS {
            let mut keep = [true, false].into_iter().cycle();
            self.points.retain(|_| keep.next().unwrap_or(true));
            self.skip = self.skip * 2 + 1;
        }
        self.points.push(point);
    }
}

impl Service {
    /// What a sandbox has used over its life, in the order of time.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn usage_history(&self, caller: &Caller, sandbox: &str) -> Result<Vec<UsagePoint>, ServiceError> {
        Ok(self.alive(caller, sandbox)?.lock().history.points.clone())
    }
}

/// Takes a point now and then until the sandbox ends. A paused one uses nothing, and is left alone.
pub(super) async fn keep(sandbox: Arc<Sandbox>, interval: Duration) {
    let taking = async {
        loop {
            sleep(interval).await;
            if sandbox.lock().state != SandboxState::Running {
                continue;
            }
            sandbox.refresh().await;
            let mut inner = sandbox.lock();
            let point = inner.usage.point();
            inner.history.push(point);
        }
    };
    tokio::select! {
        () = taking => {}
        _ = sandbox.ended() => {}
    }
}

#[cfg(test)]
mod tests {
    //! How points make room.

    use std::time::UNIX_EPOCH;

    use super::*;

    fn seconds(history: &History) -> Vec<u64> {
        let second = |point: &UsagePoint| point.at.duration_since(UNIX_EPOCH).expect("later").as_secs();
        history.points.iter().map(second).collect()
    }

    #[test]
    fn however_many_come_the_whole_life_is_covered_evenly_and_in_order() {
        let mut history = History::default();
        for second in 0..100_000_u64 {
            let at = UNIX_EPOCH + Duration::from_secs(second);
            history.push(UsagePoint { at, cpu: Duration::ZERO, memory_bytes: second, disk_bytes: 0 });
            assert!(history.points.len() <= MAX_POINTS);
            if second == 100 {
                assert_eq!(seconds(&history), (0..=100).collect::<Vec<_>>(), "a short life is whole");
            }
        }
        let seconds = seconds(&history);
        let steps: Vec<u64> = seconds.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(seconds.len() >= MAX_POINTS / 2 && seconds[0] == 0, "{seconds:?}");
        assert!(steps.iter().all(|step| *step == steps[0]), "evenly: {steps:?}");
        assert!(100_000 - seconds[seconds.len() - 1] <= 2 * steps[0], "up to now");
    }
}
