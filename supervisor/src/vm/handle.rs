//! A machine in use: the agent in it, and the driver under it.

use std::io;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::driver::{Death, DriverHandle, MachineUsage, Request, VmState};
use super::error::StartError;
use super::gate::Identity;
use super::id::VmId;
use super::kept::KeptDisk;
use crate::agent::{AgentClient, AgentError, RestoreRequest};
use crate::engine::{EngineError, Operation, SnapshotFiles, Timings};
use crate::host::cgroup::CpuQuota;

/// How long a lost conversation waits for news of its machine's death before the agent alone is blamed.
pub(super) const VERDICT_GRACE: Duration = Duration::from_millis(500);

/// Why a conversation with a machine broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The machine runs, its agent is gone or no longer makes sense.
    Agent,
    /// The machine is gone.
    Vm(Death),
}

/// A machine whose gate is open. Dropping it stops it in the background.
#[derive(Debug)]
pub struct Vm {
    id: VmId,
    client: AgentClient,
    driver: DriverHandle,
    timings: Timings,
}

impl Vm {
    pub(super) fn new(id: VmId, client: AgentClient, driver: DriverHandle, timings: Timings) -> Self {
        Self { id, client, driver, timings }
    }

    /// Adds what was tried before it to the time of its start.
    pub(super) fn started_after(self, mut before: Timings) -> Self {
        before.extend(&self.timings);
        Self { timings: before, ..self }
    }

    /// Its name on this host.
    #[must_use]
    pub fn id(&self) -> VmId {
        self.id
    }

    /// The agent inside.
    #[must_use]
    pub fn agent(&self) -> &AgentClient {
        &self.client
    }

    /// Where the time of its start went.
    #[must_use]
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> VmState {
        self.driver.state.borrow().clone()
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Death {
        self.end_watch().await
    }

    /// Waits for its end without holding it: dropping the machine still stops it.
    pub fn end_watch(&self) -> impl Future<Output = Death> + Send + use<> {
        let mut state = self.driver.state.clone();
        async move {
            let ended = state.wait_for(|state| matches!(state, VmState::Ended(_))).await;
            match ended.as_deref() {
                Ok(VmState::Ended(death)) => death.clone(),
                // The driver is gone without a word: only the end of the runtime does that.
                _ => Death::Stopped,
            }
        }
    }

    /// Makes a machine that has waited with an open gate its caller's, as the gate does for a new clone.
    ///
    /// # Errors
    /// See [`StartError`]; after any of them the machine must not be used.
    pub async fn renew(&self, identity: &Identity, deadline: Duration) -> Result<(), StartError> {
        self.gate(identity.renewal(), deadline).await
    }

    /// Leaves a machine that nobody has claimed with nothing to do, and shows that it can be handed over.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn settle(&self, deadline: Duration) -> Result<(), StartError> {
        self.gate(Identity::default().settle(), deadline).await
    }

    async fn gate(
        &self,
        request: Result<RestoreRequest, getrandom::Error>,
        deadline: Duration,
    ) -> Result<(), StartError> {
        let request = request.map_err(StartError::Random)?;
        let last_words = String::new();
        self.client.restore(request, deadline).await.map_err(|source| StartError::Gate { source, last_words })
    }

    /// Ends the waiting of a machine made ahead: it now goes before those that still wait, and gets the share
    /// of the host's processors that its holder asked for.
    ///
    /// # Errors
    /// When the machine is gone or the kernel refuses.
    pub async fn raise_cpu_weight(&self, cpu: Option<CpuQuota>) -> Result<(), StartError> {
        let set = self.ask(Operation::Resume, |reply| Request::RaiseCpuWeight(cpu, reply)).await;
        set.map_err(StartError::Engine)?.map_err(StartError::Cgroup)?;
        if let Some(cpu) = cpu {
            self.client.meter().set_share(cpu);
        }
        Ok(())
    }

    /// Stops the guest's processors.
    ///
    /// # Errors
    /// When the machine is gone or refuses.
    pub async fn pause(&self) -> Result<(), EngineError> {
        self.ask(Operation::Pause, Request::Pause).await?
    }

    /// Lets them run again.
    ///
    /// # Errors
    /// When the machine is gone or refuses.
    pub async fn resume(&self) -> Result<(), EngineError> {
        self.ask(Operation::Resume, Request::Resume).await?
    }

    /// What it has used, with what the supervisor took to understand its guest; nothing when the machine is gone.
    pub async fn usage(&self) -> MachineUsage {
        let used = self.ask(Operation::Pause, Request::Usage).await.unwrap_or_default();
        MachineUsage { group: used.group.with_ours(self.client.meter().taken()), ..used }
    }

    /// The end of what guest and monitor printed, for a person looking for a cause; nothing when the machine is
    /// gone.
    pub async fn last_words(&self) -> String {
        self.ask(Operation::Dial, Request::LastWords).await.unwrap_or_default()
    }

    /// Who is to blame for a conversation that failed, if somebody is.
    pub async fn blame(&self, error: &AgentError) -> Option<Lost> {
        if !error.is_fatal() {
            return None;
        }
        // The end of the byte stream and the end of the process are two events of one death.
        match timeout(VERDICT_GRACE, self.ended()).await {
            Ok(death) => Some(Lost::Vm(death)),
            Err(_) => Some(Lost::Agent),
        }
    }

    /// Stops it and waits until nothing of it is left.
    pub async fn stop(self) -> Death {
        self.end().await
    }

    /// Like [`stop`](Self::stop), for a machine that is shared.
    pub async fn end(&self) -> Death {
        // A driver that is gone already has cleaned up.
        let _ = self.driver.requests.send(Request::Stop).await;
        self.ended().await
    }

    /// Stops it as [`end`](Self::end) does, and keeps its scratch disk. The guest has left everything on it before.
    ///
    /// # Errors
    /// When the machine was gone before, or its disk could not be kept: it is gone too then.
    pub async fn end_keeping_disk(&self) -> io::Result<KeptDisk> {
        let kept = self.ask(Operation::Pause, Request::StopKeepingDisk).await;
        self.ended().await;
        kept.map_err(io::Error::other)?
    }

    /// Closes the conversation, so that the machine can be frozen without a connection in its memory.
    pub(super) fn hang_up(self) -> Silent {
        Silent { driver: self.driver, id: self.id }
    }

    async fn ask<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, EngineError> {
        ask(&self.driver, operation, request).await
    }
}

/// A machine nobody talks to any more.
#[derive(Debug)]
pub(super) struct Silent {
    driver: DriverHandle,
    id: VmId,
}

impl Silent {
    /// Freezes it into the snapshot it was launched for.
    pub(super) async fn freeze(&self) -> Result<SnapshotFiles, EngineError> {
        tracing::debug!(id = %self.id, "freezing");
        ask(&self.driver, Operation::Snapshot, Request::Snapshot).await?
    }

    /// Stops it and waits until nothing of it is left.
    pub(super) async fn stop(self) {
        let _ = self.driver.requests.send(Request::Stop).await;
        let mut state = self.driver.state;
        let _ = state.wait_for(|state| matches!(state, VmState::Ended(_))).await;
    }
}

async fn ask<T>(
    driver: &DriverHandle,
    operation: Operation,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
) -> Result<T, EngineError> {
    let gone = || EngineError::Refused { operation, reason: "the machine is gone".into() };
    let (reply, answer) = oneshot::channel();
    driver.requests.send(request(reply)).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())
}
