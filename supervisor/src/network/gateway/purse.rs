//! What a tenant may spend at the gateway over all its sandboxes: so much on each day of UTC, and so many requests in a
//! minute. Pure: whoever asks says what time it is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::budget::{CostSpent, Pace};

const DAY: u64 = 24 * 60 * 60;

/// Today, in days of UTC since 1970.
#[must_use]
pub fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / DAY)
}

/// The most that a tenant may, by the token that a sandbox was made with; `None` is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Cost on one day.
    pub cost_per_day: Option<u64>,
    /// Requests in a minute.
    pub per_minute: Option<u32>,
}

/// What was spent on the last day that anything was spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCost {
    /// Which, since 1970.
    pub day: u64,
    /// How much.
    pub cost: u64,
}

impl DayCost {
    /// What was spent on a day.
    #[must_use]
    pub fn on(self, day: u64) -> u64 {
        // A clock that was set back is still on the day that it was.
        if day > self.day { 0 } else { self.cost }
    }

    pub(super) fn take(&mut self, cost: u64, day: u64, most: Option<u64>) -> Result<(), CostSpent> {
        let within = |sum: &u64| cost == 0 || most.is_none_or(|most| *sum <= most);
        let sum = self.on(day).checked_add(cost).filter(within).ok_or(CostSpent)?;
        *self = Self { day: day.max(self.day), cost: sum };
        Ok(())
    }

    pub(super) fn give_back(&mut self, cost: u64, day: u64) {
        if day == self.day {
            self.cost = self.cost.saturating_sub(cost);
        }
    }
}

/// What one tenant spends.
#[derive(Debug)]
pub struct Purse {
    /// Of this process's purses.
    pub(super) number: u64,
    inner: Mutex<Inner>,
}

impl Default for Purse {
    fn default() -> Self {
        Self::after(DayCost::default())
    }
}

#[derive(Debug)]
struct Inner {
    spent: DayCost,
    pace: Pace,
}

impl Default for Inner {
    fn default() -> Self {
        Self { spent: DayCost::default(), pace: Pace::new(1) }
    }
}

impl Purse {
    /// One of which so much was spent before.
    #[must_use]
    pub fn after(spent: DayCost) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let inner = Mutex::new(Inner { spent, ..Inner::default() });
        Self { number: NUMBERS.fetch_add(1, Relaxed), inner }
    }

    /// What was spent on a day.
    #[must_use]
    pub fn spent(&self, day: u64) -> u64 {
        self.lock().spent.on(day)
    }

    /// What was spent on the last day that anything was.
    pub(super) fn last_day(&self) -> DayCost {
        self.lock().spent
    }

    /// Lets one more request through; else how long it has to wait.
    pub(super) fn request(&self, allowance: Allowance, now: Instant) -> Result<(), Duration> {
        let Some(per_minute) = allowance.per_minute else { return Ok(()) };
        // Tokens of one tenant may allow different paces: each is asked about all that was let through.
        self.lock().pace.take_at(per_minute, now)
    }

    pub(super) fn take(&self, cost: u64, allowance: Allowance, day: u64) -> Result<(), CostSpent> {
        self.lock().spent.take(cost, day, allowance.cost_per_day)
    }

    pub(super) fn give_back(&self, cost: u64, day: u64) {
        self.lock().spent.give_back(cost, day);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! Days that begin anew, and sandboxes that share.

    use super::*;

    fn of(cost_per_day: u64) -> Allowance {
        Allowance { cost_per_day: Some(cost_per_day), per_minute: None }
    }

    #[test]
    fn a_tenant_spends_so_much_on_each_day_and_no_more() {
        let purse = Purse::after(DayCost { day: 7, cost: 4 });
        assert_eq!(purse.take(6, of(10), 7), Ok(()));
        assert_eq!(purse.take(1, of(10), 7), Err(CostSpent));
        assert_eq!(purse.take(0, of(3), 7), Ok(()), "what costs nothing is never too much");
        assert_eq!(purse.take(1, of(11), 7), Ok(()), "another token may allow more");
        assert_eq!(purse.take(1, of(11), 6), Err(CostSpent), "a clock that is set back opens nothing");
        assert_eq!((purse.spent(7), purse.spent(8)), (11, 0));
        assert_eq!(purse.take(10, of(10), 8), Ok(()));
        purse.give_back(1, 7);
        assert_eq!(purse.spent(8), 10, "what another day gives back is not this day's");
        purse.give_back(1, 8);
        assert_eq!(purse.take(1, of(10), 8), Ok(()));
        assert_eq!(purse.take(1, of(10), 8), Err(CostSpent));
    }

    #[test]
    fn a_pace_is_that_of_all_sandboxes_together() {
        let (purse, now) = (Purse::default(), Instant::now());
        let two = Allowance { per_minute: Some(2), ..Allowance::default() };
        assert_eq!(purse.request(two, now), Ok(()));
        assert_eq!(purse.request(two, now), Ok(()));
        assert_eq!(purse.request(two, now), Err(Duration::from_secs(30)));
        assert_eq!(purse.request(Allowance::default(), now), Ok(()), "no bound");
        assert_eq!(purse.request(two, now + Duration::from_secs(30)), Ok(()));
    }
}
