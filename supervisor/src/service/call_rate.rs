//! How often a tenant may call: so many calls a second, and so many at once after a rest. Asked on a call's headers, so
//! that one tenant in a loop does not take the supervisor's processor time from the others.
//!
//! [`Bucket`] is pure: it reads no clock. [`CallRates`] holds one for each tenant that calls.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::caller::Caller;
use super::error::ServiceError;

/// Tenants that are remembered before those are looked for that need not be.
const MANY: usize = 1024;

/// Calls that a tenant may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallRate {
    /// A second, for as long as it likes.
    pub per_second: NonZeroU32,
    /// At once, after a rest.
    pub burst: NonZeroU32,
}

impl CallRate {
    /// The rate of two settings, of which 0 means that there is no bound.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Option<Self> {
        let per_second = NonZeroU32::new(per_second)?;
        // A burst of none would let nobody in.
        Some(Self { per_second, burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN) })
    }

    /// The time one call uses up.
    fn interval(self) -> Duration {
        Duration::from_secs(1) / self.per_second.get()
    }
}

/// A token bucket: it holds `burst` calls and fills by `per_second` calls a second. Kept as the moment at which it is
/// full, so that nothing has to be filled while nobody calls.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    fn is_full(self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Takes one call out, or says when there will be one.
    fn take(&mut self, rate: CallRate, now: Instant) -> Result<(), Duration> {
        let interval = rate.interval();
        let missing = self.full_at.saturating_duration_since(now);
        let most = interval.saturating_mul(rate.burst.get() - 1);
        if missing > most {
            return Err(missing - most);
        }
        self.full_at = now + missing + interval;
        Ok(())
    }
}

/// The buckets of all tenants.
#[derive(Debug)]
pub struct CallRates {
    rate: Option<CallRate>,
    buckets: Mutex<HashMap<String, Bucket>>,
}

impl CallRates {
    /// All of them full.
    #[must_use]
    pub fn new(rate: Option<CallRate>) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts a call of this caller's. Who runs the host is not bounded.
    ///
    /// # Errors
    /// When its tenant has made too many.
    pub fn count(&self, caller: &Caller, now: Instant) -> Result<(), ServiceError> {
        let Some(rate) = self.rate.filter(|_| !caller.is_operator()) else { return Ok(()) };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = match buckets.get_mut(&caller.tenant) {
            Some(bucket) => bucket,
            None => {
                if buckets.len() >= MANY {
                    // One that is full is as good as none.
                    buckets.retain(|_, bucket| !bucket.is_full(now));
                }
                buckets.entry(caller.tenant.clone()).or_insert(Bucket::full(now))
            }
        };
        bucket
            .take(rate, now)
            .map_err(|retry_after| ServiceError::CallRate { per_second: rate.per_second.get(), retry_after })
    }
}

#[cfg(test)]
mod tests;
