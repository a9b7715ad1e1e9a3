//! What a sandbox has connected to: its last connections, each under the execution that made it, and the sums of every
//! execution that is under way.
//!
//! Which execution a connection belongs to is the guest's word. It is taken for one that the host has begun, and for
//! nobody's otherwise, so a guest that lies fills no memory and only ever lies about itself.

mod observe;
mod trouble;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

pub use self::observe::{GatewayRequest, Observe};
pub use self::trouble::CassetteTrouble;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::denial::Denial;
use super::summary::NetworkSummary;
use super::traffic::{Sums, Traffic};
use super::worker::Teller;
use crate::telemetry::Origin;

/// Connections that are remembered, the latest ones.
const KEPT: usize = 256;
/// Denials of one execution that are told, the first ones; all of them are counted.
const MAX_DENIALS: usize = 16;

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// It was let through by this rule.
    Open {
        /// The rule.
        rule: String,
    },
    /// It was let through by this rule, and has ended.
    Closed {
        /// The rule.
        rule: String,
        /// What it asked for later, or went on with, was denied.
        denial: Option<Denial>,
    },
    /// It was denied.
    Denied(Denial),
    /// It was allowed, and there is nobody to connect to.
    Failed {
        /// Why.
        why: String,
    },
}

impl ConnectionState {
    /// What of it was denied.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Denied(denial) | Self::Closed { denial: Some(denial), .. } => Some(denial),
            _ => None,
        }
    }
}

/// A connection at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    /// Connections of a sandbox are numbered from 1 on.
    pub number: u64,
    /// Larger than that of every change before, of any connection of the sandbox.
    pub revision: u64,
    /// When it was decided about.
    pub at: SystemTime,
    /// How long it has lasted.
    pub took: Duration,
    /// The execution it belongs to, by the guest's word; 0 is nobody's.
    pub execution: u64,
    /// What the call is part of that this execution is.
    pub origin: Origin,
    /// What was asked for.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// The policy that was in force.
    pub policy: String,
    /// What became of it.
    pub state: ConnectionState,
    /// Bytes of the client's.
    pub up: u64,
    /// Bytes of the server's.
    pub down: u64,
}

/// What a connection asked for, under which policy.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) owner: Owner,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) policy: String,
}

/// The connections of a sandbox.
#[derive(Debug, Default)]
pub struct Journal {
    inner: Mutex<Inner>,
    news: watch::Sender<u64>,
    observer: Option<Arc<dyn Observe>>,
    /// In the worker: the journal that counts is the supervisor's, and is told.
    teller: Option<Arc<Teller>>,
    /// Whether trouble with cassettes was told.
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    numbers: u64,
    revisions: u64,
    kept: VecDeque<Arc<Record>>,
    /// Those that the host has begun.
    executions: HashMap<u64, Tally>,
    all: Counts,
}

#[derive(Debug, Default)]
struct Tally {
    counts: Counts,
    sums: Arc<Sums>,
    gateway_cost: u64,
    denials: Vec<Denial>,
    origin: Origin,
}

/// Whose a connection is.
#[derive(Debug, Clone, Default)]
pub(super) struct Owner {
    /// The execution; 0 is nobody's.
    pub(super) execution: u64,
    pub(super) origin: Origin,
    pub(super) sums: Option<Arc<Sums>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    connections: u64,
    denied: u64,
    failed: u64,
}

#[derive(Debug)]
struct Record {
    number: u64,
    at: SystemTime,
    begun: Instant,
    asked: Asked,
    traffic: Arc<Traffic>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Clone)]
struct Progress {
    revision: u64,
    state: ConnectionState,
    took: Option<Duration>,
}

impl Record {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> ConnectionView {
        let Progress { revision, state, took } = self.progress().clone();
        let Asked { owner: Owner { execution, origin, .. }, host, port, policy } = self.asked.clone();
        ConnectionView {
            number: self.number,
            revision,
            at: self.at,
            took: took.unwrap_or_else(|| self.begun.elapsed()),
            execution,
            origin,
            host,
            port,
            policy,
            state,
            up: self.traffic.sums().up(),
            down: self.traffic.sums().down(),
        }
    }
}

impl Journal {
    pub(super) fn new(observer: Option<Arc<dyn Observe>>) -> Self {
        Self { observer, ..Self::default() }
    }

    /// That of one connection in the worker. Which executions there are is the supervisor's to know.
    pub(super) fn told(teller: Arc<Teller>) -> Self {
        Self { teller: Some(teller), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An execution begins: connections that name it are counted for it.
    pub fn begin(&self, execution: u64) {
        self.lock().executions.insert(execution, Tally::default());
    }

    /// Says what an execution that goes on is part of, for the connections to come.
    pub fn set_origin(&self, execution: u64, origin: Origin) {
        if let Some(tally) = self.lock().executions.get_mut(&execution) {
            tally.origin = origin;
        }
    }

    /// What an execution has done so far.
    #[must_use]
    pub fn so_far(&self, execution: u64) -> NetworkSummary {
        self.lock().executions.get(&execution).map(Tally::summary).unwrap_or_default()
    }

    /// An execution has ended; what it has done.
    pub fn end(&self, execution: u64) -> NetworkSummary {
        self.lock().executions.remove(&execution).map(|tally| tally.summary()).unwrap_or_default()
    }

    /// Connections of the whole sandbox, those that were denied and those that failed. Bytes are the gate's.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let Counts { connections, denied, failed } = self.lock().all;
        (connections, denied, failed)
    }

    /// The execution that a guest names: nobody when the host has not begun it.
    pub(super) fn owner(&self, claimed: u64) -> Owner {
        if let Some(teller) = &self.teller {
            teller.claimed(claimed);
            return Owner { execution: claimed, ..Owner::default() };
        }
        match self.lock().executions.get(&claimed) {
            Some(tally) => Owner {
                execution: claimed,
                origin: tally.origin.clone(),
                sums: Some(Arc::clone(&tally.sums)),
            },
            None => Owner::default(),
        }
    }

    /// Remembers a decision. What is open is closed with what this returns.
    pub(super) fn decided(
        self: &Arc<Self>,
        asked: Asked,
        traffic: Arc<Traffic>,
        state: ConnectionState,
    ) -> OpenConnection {
        traffic.decided();
        let record = {
            let mut inner = self.lock();
            inner.numbers += 1;
            inner.revisions += 1;
            let progress = Progress { revision: inner.revisions, state, took: None };
            inner.count(asked.owner.execution, &progress.state, true);
            let record = Arc::new(Record {
                number: inner.numbers,
                at: SystemTime::now(),
                begun: Instant::now(),
                asked,
                traffic,
                progress: Mutex::new(progress),
            });
            while inner.kept.len() >= KEPT {
                inner.kept.pop_front();
            }
            inner.kept.push_back(Arc::clone(&record));
            record
        };
        self.tell(&record);
        OpenConnection { journal: Arc::clone(self), record }
    }

    fn close(&self, record: &Record, denial: Option<Denial>) {
        {
            let mut inner = self.lock();
            let mut progress = record.progress();
            let ConnectionState::Open { rule } = &progress.state else { return };
            inner.revisions += 1;
            progress.state = ConnectionState::Closed { rule: rule.clone(), denial };
            progress.revision = inner.revisions;
            progress.took = Some(record.begun.elapsed());
            inner.count(record.asked.owner.execution, &progress.state, false);
        }
        self.tell(record);
    }

    /// Tells of a request of plain HTTP.
    pub(super) fn request(&self) {
        if let Some(teller) = &self.teller {
            teller.request();
        }
        if let Some(observer) = &self.observer {
            observer.request();
        }
    }

    /// Tells of a request of an execution to the gateway.
    pub(super) fn gateway(&self, execution: u64, request: &GatewayRequest<'_>) {
        if let Some(teller) = &self.teller {
            teller.gateway(request);
        }
        if let Some(tally) = self.lock().executions.get_mut(&execution) {
            tally.gateway_cost = tally.gateway_cost.saturating_add(request.cost);
        }
        if let Some(observer) = &self.observer {
            observer.gateway(request);
        }
    }

    fn tell(&self, record: &Record) {
        let view = record.view();
        if let Some(teller) = &self.teller {
            teller.connection(&view, &record.traffic);
        }
        if let Some(observer) = &self.observer
            && !matches!(view.state, ConnectionState::Open { .. })
        {
            observer.connection(&view);
        }
        self.news.send_replace(view.revision);
    }

    /// The first change after this revision, of those that are remembered.
    #[must_use]
    pub fn after(&self, revision: u64) -> Option<ConnectionView> {
        let inner = self.lock();
        let newer = inner.kept.iter().filter_map(|record| {
            let at = record.progress().revision;
            (at > revision).then_some((at, record))
        });
        newer.min_by_key(|(at, _)| *at).map(|(_, record)| record.view())
    }

    /// Changes with every decision and every end.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }
}

impl Inner {
    fn count(&mut self, execution: u64, state: &ConnectionState, new: bool) {
        let mut tally = self.executions.get_mut(&execution);
        if let (Some(tally), Some(denial)) = (&mut tally, state.denial())
            && tally.denials.len() < MAX_DENIALS
        {
            tally.denials.push(denial.clone());
        }
        for counts in tally.map(|tally| &mut tally.counts).into_iter().chain([&mut self.all]) {
            counts.connections += u64::from(new);
            counts.denied += u64::from(state.denial().is_some());
            counts.failed += u64::from(matches!(state, ConnectionState::Failed { .. }));
        }
    }
}

impl Tally {
    fn summary(&self) -> NetworkSummary {
        let Counts { connections, denied, failed } = self.counts;
        let (up, down) = (self.sums.up(), self.sums.down());
        let (gateway_cost, denials) = (self.gateway_cost, self.denials.clone());
        NetworkSummary { connections, denied, failed, up, down, gateway_cost, denials }
    }
}

/// A connection that was decided about. It is closed at the latest when this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    journal: Arc<Journal>,
    record: Arc<Record>,
}

impl OpenConnection {
    /// Closes one that was let through; what of it was denied after that.
    pub(super) fn close(&self, denial: Option<Denial>) {
        self.journal.close(&self.record, denial);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.journal.close(&self.record, None);
    }
}

#[cfg(test)]
mod tests;
