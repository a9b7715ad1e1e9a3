//! A worker that runs: what it was told, and what it has not answered yet.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::control::Control;
use super::keeper::Wish;
use super::order::{Answer, GateSetup, Order};
use crate::host::process::Process;
use crate::network::gateway::Grants;
use crate::network::intercept::Interception;

/// How long it may take to hear an order, and to answer one. One that takes longer lets through what it should not.
const ANSWER: Duration = Duration::from_secs(5);

/// A worker that was set up.
pub(super) struct RunningWorker {
    pub(super) process: Process,
    pub(super) control: Control,
    /// Changes with the gateway's secrets.
    pub(super) secrets: watch::Receiver<u64>,
    /// Sandboxes that it knows.
    told: HashSet<u64>,
    numbers: u64,
    /// Policies that it has not answered yet.
    asked: HashMap<u64, (Instant, oneshot::Sender<()>)>,
}

/// Why a worker is done with.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("nobody needs it any more")]
    Unneeded,
    #[error("its channel ended")]
    Channel(#[source] io::Error),
    #[error("it does not answer")]
    Late,
    #[error("it says what makes no sense: {nonsense}")]
    Nonsense { nonsense: String },
}

impl RunningWorker {
    pub(super) fn new(process: Process, control: Control, secrets: watch::Receiver<u64>) -> Self {
        Self { process, control, secrets, told: HashSet::new(), numbers: 0, asked: HashMap::new() }
    }

    /// When the first answer that it owes is late.
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.asked.values().map(|(until, _)| *until).min()
    }

    /// Gives an order. A worker that does not take it is stuck.
    pub(super) async fn say(&mut self, order: &Order, descriptor: Option<OwnedFd>) -> Result<(), Over> {
        match timeout(ANSWER, self.control.send(order, descriptor)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Over::Channel(error)),
            Err(_) => Err(Over::Late),
        }
    }

    pub(super) async fn follow(&mut self, wish: Wish) -> Result<(), Over> {
        match wish {
            Wish::Stream { gate, source, socket } => {
                if self.told.insert(gate) {
                    let setup = Box::new(GateSetup {
                        policy: source.policy(),
                        spending: source.spent.spending(),
                        grants: source.grants.as_deref().map(Grants::hand_over),
                        authority: source.interception.as_deref().map(Interception::hand_over),
                    });
                    self.say(&Order::Gate { gate, setup }, None).await?;
                }
                self.say(&Order::Stream { gate }, Some(socket)).await
            }
            Wish::Policy { gate, source, done } => {
                // One that it does not know it is told with the first connection.
                if self.told.contains(&gate) {
                    self.numbers += 1;
                    self.asked.insert(self.numbers, (Instant::now() + ANSWER, done));
                    let policy = source.policy();
                    self.say(&Order::Policy { gate, policy, number: self.numbers }, None).await?;
                }
                Ok(())
            }
            Wish::Distrust { nonsense } => Err(Over::Nonsense { nonsense }),
            Wish::Cut { gate } => match self.told.contains(&gate) {
                true => self.say(&Order::Cut { gate }, None).await,
                false => Ok(()),
            },
            Wish::Forget { gate } => match self.told.remove(&gate) {
                true => self.say(&Order::Forget { gate }, None).await,
                false => Ok(()),
            },
        }
    }

    pub(super) fn answered(&mut self, answer: io::Result<Answer>) -> Result<(), Over> {
        match answer.map_err(Over::Channel)? {
            Answer::Ready => {}
            Answer::Enforced { number } => {
                if let Some((_, done)) = self.asked.remove(&number) {
                    let _ = done.send(());
                }
            }
        }
        Ok(())
    }
}

/// Completes at this time, if there is one.
pub(super) async fn late(overdue: Option<Instant>) {
    match overdue {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
