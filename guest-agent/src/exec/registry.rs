//! The executions that run now, so that signals and resizes find them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rekindle_protocol::limits::MAX_EXECUTIONS;
use rekindle_protocol::wire::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::agent::Agent;
use crate::cgroup::{Cgroups, ExecutionGroup};
use crate::failure::Failure;

/// A running execution as others may touch it.
pub struct RunningExecution {
    /// Process id of its first process.
    pub pid: i32,
    /// Process group of that process.
    pub process_group: i32,
    /// A handle of that process that never means another.
    pub pidfd: OwnedFd,
    /// Its cgroup.
    pub group: Option<ExecutionGroup>,
    /// Its terminal.
    pub terminal: Option<OwnedFd>,
}

/// Cgroups of executions that are remembered, also after their end: what they left behind may still connect.
const MAX_OWNERS: usize = 4096;

/// The right to run, of which there are [`MAX_EXECUTIONS`].
pub type Slot = OwnedSemaphorePermit;

impl RunningExecution {
    /// Kills everything it started, as far as the place allows.
    pub fn kill(&self) {
        match &self.group {
            Some(group) => group.kill(),
            None => {
                let _ = killpg(Pid::from_raw(self.process_group), Signal::SIGKILL);
            }
        }
    }

    /// Sends a signal to every process of it.
    pub fn signal_everyone(&self, signal: i32) {
        match &self.group {
            Some(group) if signal == libc::SIGKILL => group.kill(),
            Some(group) => {
                for pid in group.processes() {
                    let _ = raw_kill(pid, signal);
                }
            }
            None => {
                let _ = raw_kill(-self.process_group, signal);
            }
        }
    }
}

fn raw_kill(pid: i32, signal: i32) -> nix::Result<()> {
    // Real-time signals have no name, so they cannot be expressed as `Signal`.
    match Signal::try_from(signal) {
        Ok(signal) => kill(Pid::from_raw(pid), signal),
        Err(error) => Err(error),
    }
}

/// All running executions.
pub struct Executions {
    slots: Arc<Semaphore>,
    last_id: AtomicU64,
    running: Mutex<HashMap<u64, Arc<RunningExecution>>>,
    /// A group nobody uses yet. Making one takes the kernel about as long as all the rest of an execution's
    /// preparation, so it is made when the execution before is done.
    spare: Mutex<Option<ExecutionGroup>>,
    /// Executions whose host has its result while they are still tidied up.
    tidying: watch::Sender<usize>,
    /// The host's numbers for executions, by the ids of their cgroups. Ids grow, and none is used twice.
    owners: Mutex<BTreeMap<u64, u64>>,
}

impl Default for Executions {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_EXECUTIONS)),
            last_id: AtomicU64::default(),
            running: Mutex::default(),
            spare: Mutex::default(),
            tidying: watch::Sender::default(),
            owners: Mutex::default(),
        }
    }
}

impl Executions {
    /// The right to run one more, held until it has ended; `None` when there are too many.
    pub fn slot(&self) -> Option<Slot> {
        self.slots.clone().try_acquire_owned().ok()
    }

    /// An id no execution of this agent has had.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives no id up to this one.
    pub fn begin_after(&self, id: u64) {
        self.last_id.fetch_max(id, Ordering::Relaxed);
    }

    /// Those that run.
    pub fn running(&self) -> Vec<Arc<RunningExecution>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The group for a new execution, with limits of memory and processes: the spare one, or one that is made now.
    ///
    /// # Errors
    /// When the group or its limits cannot be made.
    pub fn group(
        &self,
        cgroups: &Cgroups,
        id: u64,
        (memory_bytes, pids): (u64, u32),
    ) -> io::Result<Option<ExecutionGroup>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        match spare.filter(ExecutionGroup::exists) {
            Some(group) => group.limit(memory_bytes, pids).map(|()| Some(group)),
            None => cgroups.create(id, memory_bytes, pids),
        }
    }

    /// Makes a spare group, unless there is one.
    pub fn prepare_group(&self, cgroups: &Cgroups) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() {
            // Whoever needs one and finds none makes it, and says why that fails.
            *spare = cgroups.create(self.next_id(), 0, 0).unwrap_or_default();
        }
    }

    /// Remembers the host's number for the execution that is about to run in a group. Before its program can connect.
    pub fn label(&self, group: &ExecutionGroup, label: u64) {
        let Some(cgroup) = group.id().filter(|_| label != 0) else { return };
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.insert(cgroup, label);
        while owners.len() > MAX_OWNERS {
            owners.pop_first();
        }
    }

    /// The host's number for the execution that ran last in the cgroup of this id.
    pub fn in_cgroup(&self, cgroup: u64) -> Option<u64> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).get(&cgroup).copied()
    }

    /// Completes when nothing is being tidied up.
    pub async fn tidied(&self) {
        // The sender is here.
        let _ = self.tidying.subscribe().wait_for(|tidying| *tidying == 0).await;
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Makes one known for as long as the returned entry lives.
    pub fn enter(&self, id: u64, running: Arc<RunningExecution>, slot: Option<Slot>) -> Entry<'_> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id, running);
        Entry { executions: self, id, _slot: slot }
    }

    /// Finds one.
    ///
    /// # Errors
    /// When it does not run.
    pub fn find(&self, id: u64) -> Result<Arc<RunningExecution>, Failure> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running
            .get(&id)
            .cloned()
            .ok_or_else(|| Failure::new(ErrorCode::NotFound, format!("execution {id} does not run")))
    }
}

/// The time in which an execution is tidied up, over when this is dropped. It keeps a guest from being frozen, but
/// nobody who has the result from going on.
pub struct Tidying {
    agent: Arc<Agent>,
}

impl Tidying {
    /// Begins it.
    pub fn begin(agent: &Arc<Agent>) -> Self {
        agent.executions.tidying.send_modify(|tidying| *tidying += 1);
        Self { agent: agent.clone() }
    }
}

impl Drop for Tidying {
    fn drop(&mut self) {
        self.agent.executions.tidying.send_modify(|tidying| *tidying = tidying.saturating_sub(1));
    }
}

/// A known execution; dropping it makes it unknown.
pub struct Entry<'a> {
    executions: &'a Executions,
    id: u64,
    _slot: Option<Slot>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.executions.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
