//! Refused callers in the audit log: the first lines of each address and second, then one that says how many were
//! left out. Whoever has no token can call as often as the network allows; the log's disk is not for that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::connection::Peer;
use super::places::network;
use crate::telemetry::{Audit, Decision, Entry};

/// Lines of one address in one window.
const MAX_LINES: u64 = 32;
/// How long lines are counted before it begins anew.
const WINDOW: Duration = Duration::from_secs(1);
/// Addresses that are told apart within one window; all others share what one has.
const MAX_SOURCES: usize = 256;

/// Where calls come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    /// The unix socket.
    Socket,
    /// An address of the network.
    Address(IpAddr),
    /// An address that is not known or not told apart.
    Other,
}

impl Source {
    fn of(peer: &Peer) -> Self {
        match peer {
            Peer::Socket { .. } => Self::Socket,
            Peer::Tcp { address: Some(address) } => Self::Address(network(address.ip())),
            Peer::Tcp { address: None } => Self::Other,
        }
    }

    fn word(self) -> String {
        match self {
            Self::Socket => "unix".to_owned(),
            Self::Address(address) => address.to_string(),
            Self::Other => "several".to_owned(),
        }
    }
}

/// Counts refused calls and says which of them are written down.
#[derive(Clone)]
pub(crate) struct Refusals(Arc<Counts>);

struct Counts {
    audit: Arc<Audit>,
    window: Mutex<HashMap<Source, u64>>,
}

impl Refusals {
    pub(crate) fn new(audit: Arc<Audit>) -> Self {
        Self(Arc::new(Counts { audit, window: Mutex::default() }))
    }

    /// Counts one refused call; whether it gets a line of its own. Called within the runtime.
    pub(crate) fn count(&self, peer: &Peer) -> bool {
        let mut window = self.0.window();
        if window.is_empty() {
            let counts = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                tokio::time::sleep(WINDOW).await;
                if let Some(counts) = counts.upgrade() {
                    counts.close();
                }
            });
        }
        let mut source = Source::of(peer);
        if window.len() >= MAX_SOURCES && !window.contains_key(&source) {
            source = Source::Other;
        }
        let calls = window.entry(source).or_default();
        *calls += 1;
        *calls <= MAX_LINES
    }
}

impl Counts {
    fn window(&self) -> MutexGuard<'_, HashMap<Source, u64>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the window and tells what it left out.
    fn close(&self) {
        let ended = std::mem::take(&mut *self.window());
        for (source, calls) in ended {
            let left_out = calls.saturating_sub(MAX_LINES);
            if left_out > 0 {
                self.audit.record(&Entry {
                    time: Timestamp::now(),
                    tenant: None,
                    token: None,
                    method: "several",
                    sandbox: None,
                    decision: Decision::Denied,
                    reason: Some("too_many_refusals"),
                    trace: None,
                    step: None,
                    peer: Some(&source.word()),
                    left_out: Some(left_out),
                });
            }
        }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // The last window of a service that ends.
        self.close();
    }
}

#[cfg(test)]
mod tests;
