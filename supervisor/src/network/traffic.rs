//! What a connection moves: counted for itself, for its execution and for its sandbox, and held to the sandbox's budget
//! and pace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::policy::Budget;

/// What may be moved at once after a rest, as a time at the full pace.
const BURST: Duration = Duration::from_secs(1);

/// Which way bytes go, seen from the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Out of it.
    Up,
    /// Into it.
    Down,
}

/// Bytes of both directions.
#[derive(Debug, Default)]
pub struct Sums {
    up: AtomicU64,
    down: AtomicU64,
}

impl Sums {
    /// Out of the sandbox.
    #[must_use]
    pub fn up(&self) -> u64 {
        self.up.load(Ordering::Relaxed)
    }

    /// Into the sandbox.
    #[must_use]
    pub fn down(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }

    fn of(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    fn add(&self, way: Way, bytes: u64) {
        self.of(way).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds to a sum as much of this as stays within a bound; how much that is.
    fn add_within(&self, way: Way, bytes: u64, most: Option<u64>) -> u64 {
        let mut added = 0;
        let within = |sum: u64| {
            added = most.map_or(bytes, |most| bytes.min(most.saturating_sub(sum)));
            (added > 0).then(|| sum.saturating_add(added))
        };
        let _ = self.of(way).fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        added
    }
}

/// What all connections of a sandbox share.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) sums: Sums,
    /// Connections that were decided about.
    connections: AtomicU64,
    /// Requests that were let through.
    requests: AtomicU64,
    /// Up to when the pace is used up.
    paced: Mutex<Option<Instant>>,
}

/// What was spent at one moment, to go on from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spending {
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) connections: u64,
    pub(super) requests: u64,
}

impl Spent {
    /// Goes on from what was spent before.
    pub(super) fn resume(before: Spending) -> Self {
        let Spending { up, down, connections, requests } = before;
        Self {
            sums: Sums { up: up.into(), down: down.into() },
            connections: connections.into(),
            requests: requests.into(),
            paced: Mutex::default(),
        }
    }

    /// What was spent so far.
    pub(super) fn spending(&self) -> Spending {
        Spending {
            up: self.sums.up(),
            down: self.sums.down(),
            connections: self.connections(),
            requests: self.requests(),
        }
    }

    /// Connections that were decided about.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whether nothing is left of a budget.
    pub(super) fn is_over(&self, budget: &Budget) -> bool {
        budget.bytes_up.is_some_and(|most| self.sums.up() >= most)
            || budget.bytes_down.is_some_and(|most| self.sums.down() >= most)
    }

    /// Requests that were let through.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Takes one request out of a budget; false where none is left.
    pub(super) fn take_request(&self, budget: &Budget) -> bool {
        let within =
            |sum: u64| sum.checked_add(1).filter(|sum| budget.requests.is_none_or(|most| *sum <= most));
        self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// When so many bytes may have moved at a pace.
    fn due(&self, bytes: u64, per_second: u64, now: Instant) -> Instant {
        let took = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / per_second.max(1));
        let mut paced = self.paced.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let due = paced.map_or(earliest, |paced| paced.max(earliest)) + took;
        *paced = Some(due);
        due
    }
}

/// A sandbox's budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the budget of bytes is spent")]
pub(super) struct BudgetSpent;

/// What one connection moves.
#[derive(Debug, Default)]
pub struct Traffic {
    own: Sums,
    execution: Option<Arc<Sums>>,
    spent: Arc<Spent>,
}

impl Traffic {
    pub(super) fn new(spent: Arc<Spent>, execution: Option<Arc<Sums>>) -> Self {
        Self { own: Sums::default(), execution, spent }
    }

    /// What it has moved.
    #[must_use]
    pub fn sums(&self) -> &Sums {
        &self.own
    }

    /// Takes bytes that are about to move out of the budget, as many as there are left, and waits until the pace allows
    /// them; how many these are.
    pub(super) async fn take_some(
        &self,
        way: Way,
        bytes: usize,
        budget: &Budget,
    ) -> Result<usize, BudgetSpent> {
        let most = match way {
            Way::Up => budget.bytes_up,
            Way::Down => budget.bytes_down,
        };
        let taken = self.spent.sums.add_within(way, bytes as u64, most);
        if taken == 0 && bytes > 0 {
            return Err(BudgetSpent);
        }
        if let Some(per_second) = budget.bytes_per_second {
            sleep_until(self.spent.due(taken, per_second, Instant::now())).await;
        }
        // No more than there were.
        Ok(usize::try_from(taken).unwrap_or(bytes))
    }

    /// The same for bytes that are worth nothing in part. Where they do not fit, nothing is left for others either.
    pub(super) async fn take(&self, way: Way, bytes: usize, budget: &Budget) -> Result<(), BudgetSpent> {
        match self.take_some(way, bytes, budget).await? {
            taken if taken < bytes => Err(BudgetSpent),
            _ => Ok(()),
        }
    }

    /// Counts bytes that have moved.
    pub(super) fn moved(&self, way: Way, bytes: usize) {
        self.own.add(way, bytes as u64);
        if let Some(execution) = &self.execution {
            execution.add(way, bytes as u64);
        }
    }

    /// Counts the connection itself, once it was decided about.
    pub(super) fn decided(&self) {
        self.spent.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what another process has moved and taken out of the budget there: so many bytes in all.
    pub(super) fn told(&self, way: Way, bytes: u64) {
        let before = self.own.of(way).fetch_max(bytes, Ordering::Relaxed);
        let more = bytes.saturating_sub(before);
        for sums in self.execution.as_deref().into_iter().chain([&self.spent.sums]) {
            let added = |sum: u64| Some(sum.saturating_add(more));
            let _ = sums.of(way).fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        }
    }

    /// Changes whenever something moves.
    pub(super) fn mark(&self) -> u64 {
        self.own.up().wrapping_add(self.own.down())
    }
}

#[cfg(test)]
mod tests {
    //! Sums that are held to a bound, and a pace.

    use super::*;

    #[tokio::test]
    async fn a_budget_is_shared_by_connections_and_kept_to_the_byte() {
        let spent = Arc::new(Spent::default());
        let execution = Arc::new(Sums::default());
        let [one, other] = [(); 2].map(|()| Traffic::new(Arc::clone(&spent), Some(Arc::clone(&execution))));
        let budget = Budget { bytes_up: Some(100), ..Budget::default() };
        assert_eq!(one.take(Way::Up, 60, &budget).await, Ok(()));
        one.moved(Way::Up, 60);
        assert!(!spent.is_over(&budget));
        assert_eq!(other.take_some(Way::Up, 41, &budget).await, Ok(40));
        other.moved(Way::Up, 40);
        assert!(spent.is_over(&budget));
        assert_eq!(one.take_some(Way::Up, 1, &budget).await, Err(BudgetSpent));
        assert_eq!(one.take_some(Way::Up, 0, &budget).await, Ok(0));
        assert_eq!(other.take(Way::Down, 1 << 40, &budget).await, Ok(()), "the other direction has no bound");
        assert_eq!((one.sums().up(), other.sums().up(), execution.up()), (60, 40, 100));
    }

    #[tokio::test]
    async fn what_is_worth_nothing_in_part_spends_the_rest_of_the_budget() {
        let spent = Arc::new(Spent::default());
        let traffic = Traffic::new(Arc::clone(&spent), None);
        let budget = Budget { bytes_up: Some(100), ..Budget::default() };
        assert_eq!(traffic.take(Way::Up, 100, &budget).await, Ok(()));
        let more = Budget { bytes_up: Some(150), ..Budget::default() };
        assert_eq!(traffic.take(Way::Up, 51, &more).await, Err(BudgetSpent));
        assert!(spent.is_over(&more));
    }

    #[test]
    fn requests_are_counted_and_held_to_the_budget() {
        let (spent, budget) = (Spent::default(), Budget { requests: Some(2), ..Budget::default() });
        assert_eq!([(); 4].map(|()| spent.take_request(&budget)), [true, true, false, false]);
        assert_eq!(spent.requests(), 2);
        assert!(spent.take_request(&Budget::default()), "another policy may have no bound");
        assert_eq!(spent.requests(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pace_is_kept_over_all_connections_after_a_first_burst() {
        let spent = Arc::new(Spent::default());
        let budget = Budget { bytes_per_second: Some(1000), ..Budget::default() };
        let begun = Instant::now();
        for _ in 0..10 {
            // Each has its turn.
            for traffic in [(); 2].map(|()| Traffic::new(Arc::clone(&spent), None)) {
                assert_eq!(traffic.take(Way::Down, 500, &budget).await, Ok(()));
            }
        }
        let took = begun.elapsed();
        assert!((8_900..=9_100).contains(&took.as_millis()), "10,000 bytes took {took:?} of virtual time");
    }
}
