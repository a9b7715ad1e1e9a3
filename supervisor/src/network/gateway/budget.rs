//! What a sandbox may spend at the gateway, and how fast. Pure: whoever asks says what time it is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Nothing is left of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CostSpent;

/// A budget, in units of the operator's.
#[derive(Debug, Default)]
pub(super) struct CostBudget {
    most: Option<u64>,
    spent: AtomicU64,
}

impl CostBudget {
    pub(super) fn new(most: Option<u64>) -> Self {
        Self { most, spent: AtomicU64::new(0) }
    }

    /// Takes a cost out of it, or nothing where that would be more than is left.
    pub(super) fn take(&self, cost: u64) -> Result<(), CostSpent> {
        let within =
            |spent: u64| spent.checked_add(cost).filter(|sum| self.most.is_none_or(|most| *sum <= most));
        self.spent.fetch_update(Relaxed, Relaxed, within).map(|_| ()).map_err(|_| CostSpent)
    }

    /// Gives back what was taken for a request that was never made.
    pub(super) fn give_back(&self, cost: u64) {
        let _ = self.spent.fetch_update(Relaxed, Relaxed, |spent| Some(spent.saturating_sub(cost)));
    }

    /// Goes on from what was spent before.
    pub(super) fn resume(most: Option<u64>, spent: u64) -> Self {
        Self { most, spent: AtomicU64::new(spent) }
    }

    /// Counts what was spent elsewhere.
    pub(super) fn add(&self, cost: u64) {
        let _ = self.spent.fetch_update(Relaxed, Relaxed, |spent| Some(spent.saturating_add(cost)));
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }

    pub(super) fn most(&self) -> Option<u64> {
        self.most
    }
}

/// Requests in a minute: as many at once after a rest, and evenly from then on.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    /// Up to when the pace is used up.
    used: Option<Instant>,
}

impl Pace {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { every: MINUTE / per_minute.max(1), used: None }
    }

    /// The same at another pace.
    pub(super) fn take_at(&mut self, per_minute: u32, now: Instant) -> Result<(), Duration> {
        self.every = MINUTE / per_minute.max(1);
        self.take(now)
    }

    /// Lets one more through; else how long it has to wait.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let used = self.used.map_or(now, |used| used.max(now)) + self.every;
        match used.checked_duration_since(now + MINUTE) {
            Some(early) if !early.is_zero() => Err(early),
            _ => {
                self.used = Some(used);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Bounds that are kept.

    use super::*;

    #[test]
    fn a_budget_is_spent_to_the_unit_and_never_over() {
        let budget = CostBudget::new(Some(10));
        assert_eq!(budget.take(7), Ok(()));
        assert_eq!(budget.take(4), Err(CostSpent));
        assert_eq!(budget.take(3), Ok(()));
        assert_eq!(budget.take(1), Err(CostSpent));
        assert_eq!(budget.take(0), Ok(()), "what costs nothing is never too much");
        assert_eq!(budget.spent(), 10);
        budget.give_back(3);
        assert_eq!((budget.spent(), budget.take(3)), (7, Ok(())));
        let unbounded = CostBudget::default();
        assert_eq!(unbounded.take(u64::MAX), Ok(()));
        assert_eq!(unbounded.take(1), Err(CostSpent), "the sum has an end");
    }

    #[test]
    fn so_many_in_a_minute_and_the_next_when_its_time_has_come() {
        let begun = Instant::now();
        let mut pace = Pace::new(6);
        for _ in 0..6 {
            assert_eq!(pace.take(begun), Ok(()));
        }
        assert_eq!(pace.take(begun), Err(Duration::from_secs(10)));
        assert_eq!(pace.take(begun + Duration::from_secs(4)), Err(Duration::from_secs(6)));
        assert_eq!(pace.take(begun + Duration::from_secs(10)), Ok(()));
        assert_eq!(pace.take(begun + Duration::from_secs(10)), Err(Duration::from_secs(10)));
        let later = begun + Duration::from_secs(3600);
        assert_eq!(
            (0..10).filter(|_| pace.take(later).is_ok()).count(),
            6,
            "a rest earns no more than a minute"
        );
    }
}
