//! The network of one sandbox: the policy in force, what was spent under it, and its journal.
//!
//! The policy can be exchanged while connections are open. Those that the new one would not let through end. A pause of the
//! sandbox ends all of them, and none begins until it goes on.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::connection;
use super::denial::DenialReason;
use super::dial::Dialer;
use super::gateway::Grants;
use super::intercept::Interception;
use super::journal::{Journal, Observe};
use super::policy::Policy;
use super::summary::NetworkSummary;
use super::traffic::{Spending, Spent};
use super::worker::{self, GateSource, Teller, Via};
use crate::host::meter::Meter;

/// Connections of one sandbox at once; more are reset. Twice as many as an agent has open: it opens the next one as soon
/// as its own half of the last has ended, and here that one may still be on its way to its end.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// The network of one sandbox.
#[derive(Debug)]
pub struct Gate {
    policy: Arc<watch::Sender<Arc<Policy>>>,
    pub(super) dialer: Dialer,
    pub(super) spent: Arc<Spent>,
    pub(super) journal: Arc<Journal>,
    /// What it may ask of the gateway.
    pub(super) grants: Option<Arc<Grants>>,
    /// What connections whose requests are read are served with.
    pub(super) interception: Option<Arc<Interception>>,
    /// Connections that are let through at this moment.
    pub(super) open: Arc<std::sync::atomic::AtomicU32>,
    /// The worker that serves its connections; without one they are served here.
    pub(super) via: Option<Via>,
    /// Whether its sandbox stands still. Changes with every pause and every end of one.
    paused: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// A gate that lets through what a policy does. `observer` hears of every connection.
    #[must_use]
    pub fn new(policy: Arc<Policy>, dialer: Dialer, observer: Option<Arc<dyn Observe>>) -> Self {
        Self {
            policy: Arc::new(watch::channel(policy).0),
            dialer: dialer.for_another(),
            spent: Arc::default(),
            journal: Arc::new(Journal::new(observer)),
            grants: None,
            interception: None,
            open: Arc::default(),
            via: None,
            paused: Arc::new(watch::channel(false).0),
        }
    }

    /// The same, whose connections a worker serves.
    #[must_use]
    pub(super) fn through(self, via: Option<Via>) -> Self {
        Self { via, ..self }
    }

    /// In the worker: goes on from what was spent before.
    pub(super) fn resume(self, before: Spending) -> Self {
        Self { spent: Arc::new(Spent::resume(before)), ..self }
    }

    /// In the worker: the same network for one connection, of which the supervisor is told.
    pub(super) fn telling(&self, teller: Arc<Teller>) -> Self {
        Self {
            policy: Arc::clone(&self.policy),
            dialer: self.dialer.clone(),
            spent: Arc::clone(&self.spent),
            journal: Arc::new(Journal::told(teller)),
            grants: self.grants.clone(),
            interception: self.interception.clone(),
            open: Arc::clone(&self.open),
            via: None,
            paused: Arc::clone(&self.paused),
        }
    }

    /// The same, through which the gateway can be asked for these. They end with it.
    #[must_use]
    pub fn with_grants(self, grants: Option<Grants>) -> Self {
        Self { grants: grants.map(Arc::new), ..self }
    }

    /// The same, in which requests can be read where a policy says so. It ends with it.
    #[must_use]
    pub fn with_interception(self, interception: Option<Interception>) -> Self {
        Self { interception: interception.map(Arc::new), ..self }
    }

    /// What connections whose requests are read are served with; only a sandbox that was made under such a policy has
    /// it.
    #[must_use]
    pub fn interception(&self) -> Option<&Interception> {
        self.interception.as_deref()
    }

    /// What it may ask of the gateway, and has.
    #[must_use]
    pub fn grants(&self) -> Option<&Grants> {
        self.grants.as_deref()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    /// Puts another policy in force. What was spent stays spent. The worker may hear of it a moment later, see
    /// [`Gate::in_force`].
    pub fn set_policy(&self, policy: Arc<Policy>) {
        self.policy.send_replace(policy);
    }

    /// Completes when nothing is let through any more that the policy does not allow.
    pub async fn in_force(&self) {
        if let Some(via) = &self.via {
            via.enforce(self.source()).await;
        }
    }

    /// What the worker has to know of it.
    pub(super) fn source(&self) -> GateSource {
        GateSource {
            policy: Arc::clone(&self.policy),
            spent: Arc::clone(&self.spent),
            grants: self.grants.clone(),
            interception: self.interception.clone(),
        }
    }

    /// Sees the policy change.
    pub(super) fn policy_changes(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }

    /// Ends all connections, and resets what is opened until [`Gate::unpause`]: the sandbox stands still, and
    /// servers are not left waiting for programs that cannot answer.
    pub fn pause(&self) {
        self.paused.send_replace(true);
        if let Some(via) = &self.via {
            via.cut();
        }
    }

    /// Lets connections through again. Programs whose connections were reset dial again.
    pub fn unpause(&self) {
        self.paused.send_replace(false);
    }

    /// In the worker: ends all connections there are.
    pub(super) fn cut(&self) {
        self.pause();
        self.unpause();
    }

    /// Completes with the next pause; nothing while there is one.
    pub(super) fn until_paused(&self) -> Option<impl Future<Output = ()> + use<>> {
        let mut paused = self.paused.subscribe();
        let now = *paused.borrow_and_update();
        // What changes first is its beginning, also where its end is as near.
        (!now).then_some(async move {
            if paused.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// Its connections.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What the whole sandbox has done. Denials and what the gateway cost are the executions'.
    #[must_use]
    pub fn summary(&self) -> NetworkSummary {
        let (connections, denied, failed) = self.journal.counts();
        let (up, down) = (self.spent.sums.up(), self.spent.sums.down());
        NetworkSummary { connections, denied, failed, up, down, ..NetworkSummary::default() }
    }

    /// Requests of plain HTTP that were let through.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.spent.requests()
    }

    /// Takes one request out of the budget in force; false where none is left.
    pub(super) fn take_request(&self) -> bool {
        let taken = self.spent.take_request(self.policy().budget());
        if taken {
            self.journal.request();
        }
        taken
    }

    /// Whether the budget lets one more connection through.
    pub(super) fn room(&self, policy: &Policy) -> Result<Place, DenialReason> {
        use std::sync::atomic::Ordering::Relaxed;
        let budget = policy.budget();
        if budget.connections.is_some_and(|most| self.spent.connections() >= most)
            || self.spent.is_over(budget)
        {
            return Err(DenialReason::BudgetSpent);
        }
        let most = budget.connections_at_once.unwrap_or(u32::MAX);
        match self.open.fetch_update(Relaxed, Relaxed, |open| (open < most).then_some(open + 1)) {
            Ok(_) => Ok(Place(Arc::clone(&self.open))),
            Err(_) => Err(DenialReason::TooMany),
        }
    }

    /// Holds the streams of the sandbox to its policy, until its session ends. All of them end with this future.
    pub async fn serve<S>(self: Arc<Self>, mut streams: mpsc::Receiver<S>, meter: Arc<Meter>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut connections = JoinSet::new();
        while let Some(stream) = streams.recv().await {
            while connections.try_join_next().is_some() {}
            if connections.len() >= MAX_CONNECTIONS {
                continue;
            }
            let Some(paused) = self.until_paused() else { continue };
            let (gate, meter) = (Arc::clone(&self), Arc::clone(&meter));
            let serving = async move { meter.run(gate.serve_one(stream, paused)).await };
            connections.spawn(serving.in_current_span());
        }
    }

    async fn serve_one<S>(&self, stream: S, paused: impl Future<Output = ()> + Send)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match &self.via {
            Some(_) => worker::carry(stream, self, paused).await,
            None => tokio::select! {
                () = connection::serve(stream, self) => {}
                () = paused => {}
            },
        }
    }
}

/// One of the connections that are let through at a time.
#[derive(Debug)]
pub(super) struct Place(Arc<std::sync::atomic::AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! How many there may be.

    use super::*;
    use crate::network::policy::{Access, Budget, PolicySpec};
    use crate::network::{Egress, SystemResolver};

    #[tokio::test]
    async fn a_guest_that_opens_streams_without_end_gets_so_many() {
        let (sender, streams) = mpsc::channel(512);
        let mut ends = Vec::new();
        for _ in 0..MAX_CONNECTIONS + 50 {
            let (guest, host) = tokio::io::duplex(64);
            sender.send(host).await.unwrap();
            ends.push(guest);
        }
        let egress = Egress::default();
        let serving = Arc::new(egress.gate(egress.policy("").unwrap(), None)).serve(streams, Arc::default());
        let looking = async {
            use tokio::io::AsyncReadExt as _;
            // Those beyond are closed at once; the others wait for what the guest has to say.
            for guest in &mut ends[MAX_CONNECTIONS..] {
                assert_eq!(guest.read(&mut [0]).await.unwrap(), 0);
            }
        };
        tokio::select! {
            () = serving => panic!("it ended"),
            () = looking => {}
        }
        drop(sender);
    }

    #[tokio::test]
    async fn what_is_opened_while_it_stands_still_is_reset_and_a_pause_is_seen_however_short() {
        let egress = Egress::default();
        let gate = egress.gate(egress.policy("").unwrap(), None);
        let before = gate.until_paused().expect("it runs");
        gate.pause();
        assert!(gate.until_paused().is_none());
        gate.unpause();
        before.await;
        let next = gate.until_paused().expect("it runs again");
        tokio::select! {
            biased;
            () = next => panic!("the pause before it has ended it"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn as_many_are_let_through_at_once_as_the_budget_says() {
        let budget = Budget { connections_at_once: Some(2), ..Budget::default() };
        let spec = PolicySpec { mode: Access::Full, budget, ..PolicySpec::default() };
        let policy = Arc::new(Policy::new("open", &spec).unwrap());
        let dialer = Dialer::new(Arc::new(SystemResolver), std::collections::BTreeMap::new());
        let gate = Gate::new(Arc::clone(&policy), dialer, None);
        let one = gate.room(&policy).unwrap();
        let _other = gate.room(&policy).unwrap();
        assert_eq!(gate.room(&policy).unwrap_err(), DenialReason::TooMany);
        drop(one);
        assert!(gate.room(&policy).is_ok());
    }
}
