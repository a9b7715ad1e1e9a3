//! When the next machine may be made: a template rests after a failure, and a claimed machine has a head start before
//! its successor. Pure: what time it is, the policy says.

use std::time::Instant;

use super::config::PoolConfig;

/// Claims this many head starts apart come one at a time.
const A_WHILE: u32 = 5;

/// The rest of one template after refills that failed: a snapshot that cannot be restored would otherwise keep the
/// host busy for nothing.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failed_in_a_row: u32,
    pub(super) until: Option<Instant>,
}

impl Backoff {
    pub(super) fn rests(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub(super) fn succeeded(&mut self) {
        self.failed_in_a_row = 0;
    }

    /// A refill failed: it rests twice as long as after the one before, unless it rests already.
    pub(super) fn failed(&mut self, now: Instant, config: &PoolConfig) {
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        self.rest(now, config);
    }

    /// What had been made well has died. One that keeps dying must not keep the host busy either.
    pub(super) fn died(&mut self, now: Instant, config: &PoolConfig) {
        self.failed_in_a_row = self.failed_in_a_row.max(1);
        self.rest(now, config);
    }

    fn rest(&mut self, now: Instant, config: &PoolConfig) {
        if !self.rests(now) {
            let doubled = 1_u32.checked_shl(self.failed_in_a_row - 1).unwrap_or(u32::MAX);
            let rest = config.first_backoff.saturating_mul(doubled).min(config.longest_backoff);
            self.until = now.checked_add(rest);
        }
    }
}

/// The time a claimed machine has the host to itself, so that its successor does not take processors from a program
/// that was just sent to it. There is none when claims come in a row.
#[derive(Debug, Default)]
pub(super) struct HeadStart {
    last: Option<Instant>,
    pub(super) until: Option<Instant>,
}

impl HeadStart {
    pub(super) fn runs(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// A machine that had been made ahead is handed out.
    pub(super) fn claimed(&mut self, now: Instant, config: &PoolConfig) {
        let a_while = config.head_start.saturating_mul(A_WHILE);
        let alone = self.last.is_none_or(|last| now.saturating_duration_since(last) > a_while);
        self.last = Some(now);
        self.until = now.checked_add(config.head_start).filter(|_| alone);
    }
}

#[cfg(test)]
mod tests;
