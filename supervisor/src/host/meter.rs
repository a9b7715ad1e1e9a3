//! The processor time that the supervisor itself takes for one guest: measured around whatever reads what the guest
//! says, and held to the guest's own share of the processors. Without it a guest whose agent was replaced could keep a
//! processor of the host busy that nobody is billed for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep_until};

use super::cgroup::CpuQuota;

/// Processor time that may be taken at once, after a rest.
const BURST: Duration = Duration::from_millis(250);
/// Share of a guest that was given none yet.
const WHOLE: CpuQuota = CpuQuota { millis: 1000 };

/// What was taken for one guest, and how much there is for it.
#[derive(Debug)]
pub struct Meter(Mutex<Account>);

impl Default for Meter {
    fn default() -> Self {
        Self(Mutex::new(Account { taken: Duration::ZERO, share: WHOLE, full_at: Instant::now() }))
    }
}

impl Meter {
    /// Processor time taken so far.
    #[must_use]
    pub fn taken(&self) -> Duration {
        self.with(|account| account.taken)
    }

    /// So much of the processors there is for it from now on.
    pub fn set_share(&self, share: CpuQuota) {
        self.with(|account| account.share = share);
    }

    /// Does what a guest makes the supervisor do, and rests whenever that has taken more than its share.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            let done = poll_fn(|cx| {
                let before = thread_time();
                let polled = work.as_mut().poll(cx);
                let rest = self.take(thread_time().saturating_sub(before));
                match polled {
                    Poll::Ready(output) => Poll::Ready(Ok(output)),
                    Poll::Pending => rest.map_or(Poll::Pending, |until| Poll::Ready(Err(until))),
                }
            });
            match done.await {
                Ok(output) => return output,
                Err(until) => sleep_until(until).await,
            }
        }
    }

    /// Counts time that was taken, and says until when to rest.
    fn take(&self, time: Duration) -> Option<Instant> {
        self.with(|account| account.take(time, Instant::now()))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Account) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A token bucket of processor time. Kept as the moment at which it is full, as nothing has to be filled then while
/// nobody takes any.
#[derive(Debug)]
struct Account {
    taken: Duration,
    share: CpuQuota,
    full_at: Instant,
}

impl Account {
    fn take(&mut self, time: Duration, now: Instant) -> Option<Instant> {
        self.taken += time;
        let costs = time.saturating_mul(1000) / self.share.millis.max(1);
        self.full_at = self.full_at.max(now) + costs;
        let missing = self.full_at.saturating_duration_since(now).checked_sub(self.burst())?;
        (!missing.is_zero()).then(|| now + missing)
    }

    /// How long it takes to earn a burst.
    fn burst(&self) -> Duration {
        BURST.saturating_mul(1000) / self.share.millis.max(1)
    }
}

/// Processor time that this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(millis: u32, now: Instant) -> Account {
        Account { taken: Duration::ZERO, share: CpuQuota { millis }, full_at: now }
    }

    /// Takes a hundredth of a second at a time, as soon as it may, for so long, and says how much that was.
    fn greedy(mut account: Account, start: Instant, time: Duration) -> Duration {
        let mut now = start;
        while now < start + time {
            now = account.take(Duration::from_millis(10), now).map_or(now, |until| until.max(now));
        }
        account.taken
    }

    #[test]
    fn a_share_is_kept_to_however_greedy_somebody_is() {
        let (start, time) = (Instant::now(), Duration::from_secs(60));
        for (millis, fair) in [(50, 3), (500, 30), (1000, 60), (4000, 240)] {
            let taken = greedy(account(millis, start), start, time);
            let (fair, once) = (Duration::from_secs(fair), Duration::from_millis(10));
            assert!(taken >= fair && taken <= fair + BURST + once, "{millis}: {taken:?}");
        }
    }

    #[test]
    fn who_takes_less_than_the_share_never_rests() {
        let mut now = Instant::now();
        let mut account = account(100, now);
        for _ in 0..1000 {
            assert_eq!(account.take(Duration::from_millis(5), now), None);
            now += Duration::from_millis(51);
        }
        assert_eq!(account.taken, Duration::from_secs(5));
    }

    #[tokio::test]
    async fn what_is_done_is_measured_and_made_to_rest() {
        let meter = Meter::default();
        meter.set_share(CpuQuota { millis: 200 });
        let mut busy = 12;
        let began = Instant::now();
        let work = poll_fn(|cx| {
            let before = thread_time();
            while thread_time() - before < Duration::from_millis(50) {}
            busy -= 1;
            cx.waker().wake_by_ref();
            if busy == 0 { Poll::Ready("done") } else { Poll::Pending }
        });
        assert_eq!(meter.run(work).await, "done");
        let (taken, took) = (meter.taken(), began.elapsed());
        assert!(taken >= Duration::from_millis(600), "{taken:?}");
        // All but the burst and the last turn had to be earned.
        let earned = taken.saturating_sub(BURST + Duration::from_millis(100));
        assert!(took >= earned * 4, "{taken:?} of processor time in {took:?}");
    }
}
