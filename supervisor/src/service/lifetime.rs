//! When a sandbox's time is over. Pure: it reads no clock, so that every case can be tested.
//!
//! ```text
//!   running: ttl counts down; idle counts while no call is under way and no detached program runs
//!   paused:  both stand still; what pauses may take, all together, counts down
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Which clock ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The time to live.
    Ttl,
    /// The idle timeout.
    Idle,
    /// What its pauses may take.
    Pause,
}

/// The clocks of one sandbox.
#[derive(Debug, Clone)]
pub struct Lifetime {
    /// The time to live it was given last.
    granted: Duration,
    /// Its time is over, and counts as such once no call is under way.
    postponed: bool,
    /// Time to live that is left, as of `since`.
    left: Duration,
    /// Since when it runs; `None` while paused.
    since: Option<Instant>,
    /// Running time before `since`.
    ran: Duration,
    idle: Option<Duration>,
    /// Idle time used up before `quiet`, so that a pause does not start it anew.
    idled: Duration,
    /// Since when nothing is under way; `None` while something is.
    quiet: Option<Instant>,
    under_way: usize,
    /// Detached programs.
    detached: usize,
    /// What its pauses may take from `paused` on; `None` for ever.
    pause_left: Option<Duration>,
    /// Since when it is paused.
    paused: Option<Instant>,
}

impl Lifetime {
    /// A sandbox that starts to live now.
    pub fn start(now: Instant, ttl: Duration, idle: Option<Duration>, max_pause: Option<Duration>) -> Self {
        Self {
            granted: ttl,
            postponed: false,
            left: ttl,
            since: Some(now),
            ran: Duration::ZERO,
            idle,
            idled: Duration::ZERO,
            quiet: Some(now),
            under_way: 0,
            detached: 0,
            pause_left: max_pause,
            paused: None,
        }
    }

    /// When the first clock runs out; `None` while it is paused and may be for ever.
    pub fn due(&self) -> Option<(Instant, Due)> {
        if let Some(paused) = self.paused {
            // A pause that is too long to be added ends as little as one without a bound.
            return Some((paused.checked_add(self.pause_left?)?, Due::Pause));
        }
        let over = self.postponed && self.under_way == 0;
        let ttl = (self.since? + if over { Duration::ZERO } else { self.left }, Due::Ttl);
        let idle = self
            .idle
            .zip(self.quiet)
            .map(|(idle, quiet)| (quiet + idle.saturating_sub(self.idled), Due::Idle));
        Some(idle.filter(|idle| idle.0 < ttl.0).unwrap_or(ttl))
    }

    /// Time to live that is left.
    pub fn left(&self, now: Instant) -> Duration {
        self.left.saturating_sub(self.since.map_or(Duration::ZERO, |since| now - since))
    }

    /// How long it has run, pauses left out.
    pub fn ran(&self, now: Instant) -> Duration {
        self.ran + self.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// The idle timeout.
    pub fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// Calls under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// A call begins.
    pub fn begin(&mut self) {
        self.under_way += 1;
        self.quiet = None;
        self.idled = Duration::ZERO;
    }

    /// A call has ended.
    pub fn finish(&mut self, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        self.settle(now);
    }

    /// A call has left a program behind, which runs without it.
    pub fn detach(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.detached += 1;
    }

    /// Such a program has ended.
    pub fn finish_detached(&mut self, now: Instant) {
        self.detached = self.detached.saturating_sub(1);
        self.settle(now);
    }

    fn settle(&mut self, now: Instant) {
        if self.is_quiet() && self.since.is_some() {
            self.quiet = Some(now);
        }
    }

    fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.detached == 0
    }

    /// Stops the clocks.
    pub fn pause(&mut self, now: Instant) {
        self.left = self.left(now);
        self.ran = self.ran(now);
        self.since = None;
        self.paused.get_or_insert(now);
        if let Some(quiet) = self.quiet.take() {
            self.idled += now - quiet;
        }
    }

    /// Lets them run again.
    pub fn resume(&mut self, now: Instant) {
        if let Some(paused) = self.paused.take() {
            self.pause_left = self.pause_left.map(|left| left.saturating_sub(now - paused));
        }
        if self.since.is_none() {
            self.since = Some(now);
            if self.is_quiet() {
                self.quiet = Some(now);
            }
        }
    }

    /// The time to live it was given last.
    pub fn granted(&self) -> Duration {
        self.granted
    }

    /// Puts its end off until no call is under way, for at most this long.
    pub fn postpone(&mut self, now: Instant, at_most: Duration) {
        let granted = self.granted;
        self.set_ttl(now, at_most);
        (self.granted, self.postponed) = (granted, true);
    }

    /// Gives it this long from now on.
    pub fn set_ttl(&mut self, now: Instant, ttl: Duration) {
        (self.granted, self.postponed) = (ttl, false);
        self.ran = self.ran(now);
        self.left = ttl;
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    /// Changes the idle timeout; it starts anew.
    pub fn set_idle(&mut self, now: Instant, idle: Option<Duration>) {
        self.idle = idle;
        self.idled = Duration::ZERO;
        if self.quiet.is_some() {
            self.quiet = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
