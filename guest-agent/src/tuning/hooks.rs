//! The hooks, in the order of a guest's life.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rekindle_protocol::wire::Language;

use crate::agent::Agent;
use crate::interpreters::{Standby, prepare};
use crate::tuning::{GateFiles, Mechanism, Switches};

/// How long a quiet guest takes to be done with the aftermath of its last operations: the kernel's own
/// housekeeping has come round.
const SETTLING: Duration = Duration::from_secs(2);

/// What is on, and what was done ahead.
#[derive(Debug)]
pub struct Tuning {
    switches: Switches,
    /// What was opened when the guest was made quiet.
    preopened: Mutex<Option<GateFiles>>,
}

impl Tuning {
    /// Nothing has been done yet.
    pub fn new(switches: Switches) -> Self {
        Self { switches, preopened: Mutex::default() }
    }

    fn on(&self, mechanism: Mechanism) -> bool {
        self.switches.on(mechanism)
    }

    /// An interpreter stands by for programs in `language`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn standby_ready(
        &self,
        agent: &Arc<Agent>,
        language: Language,
        standby: Standby,
    ) -> io::Result<Standby> {
        match self.on(Mechanism::PreparedInterpreters) {
            true => prepare(agent, language, standby).await,
            false => Ok(standby),
        }
    }

    /// The guest is quiet and will be frozen. To be called as the last thing.
    ///
    /// # Errors
    /// When something the gate cannot do without is not there.
    pub async fn before_snapshot(&self, agent: &Arc<Agent>) -> io::Result<()> {
        let own = agent.clone();
        let done = tokio::task::spawn_blocking(move || {
            if own.tuning.on(Mechanism::Preopened) {
                let files = GateFiles::open(&own)?;
                own.tuning.keep(files);
            }
            io::Result::Ok(())
        });
        done.await.map_err(io::Error::other)??;
        if self.on(Mechanism::Settle) {
            tokio::time::sleep(SETTLING).await;
        }
        Ok(())
    }

    /// The files the gate needs: those that were opened ahead if they are `unchanged` since, otherwise opened now.
    ///
    /// # Errors
    /// When something is not there.
    pub fn gate_files(&self, agent: &Agent, unchanged: bool) -> io::Result<GateFiles> {
        let ahead = self.preopened.lock().unwrap_or_else(PoisonError::into_inner).take();
        ahead.filter(|_| unchanged).map_or_else(|| GateFiles::open(agent), Ok)
    }

    /// The gate has done its steps. Nothing of a caller's has run yet.
    pub fn gate_opened(&self, files: GateFiles) {
        if self.on(Mechanism::Preopened) {
            self.keep(files);
        }
    }

    /// An execution is over and its control group is gone. Called where waiting for the kernel holds nobody up.
    pub fn execution_done(&self, agent: &Agent) {
        if self.on(Mechanism::SpareCgroup) {
            agent.executions.prepare_group(&agent.cgroups);
        }
    }

    fn keep(&self, files: GateFiles) {
        *self.preopened.lock().unwrap_or_else(PoisonError::into_inner) = Some(files);
    }
}
