//! A sandbox as its tenant sees it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::{End, SandboxState};
use crate::config::TemplateName;
use crate::engine::Stage;
use crate::host::cgroup;
use crate::pool::StartKind;
use crate::service::create::AtTimeout;
use crate::service::id::SandboxId;
use crate::service::turns::{ResultView, TurnsView};

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimitsView {
    /// Thousandths of a host processor.
    pub milli_cpus: u32,
    /// Memory of all programs together.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
}

/// What a sandbox has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SandboxUsage {
    /// Executions, whatever their end.
    pub executions: u64,
    /// The machine's control group.
    pub machine: cgroup::Usage,
    /// What its disk takes on the host; not known where it cannot be looked at.
    pub disk_bytes: Option<u64>,
    /// Bytes uploaded.
    pub bytes_in: u64,
    /// Bytes downloaded and printed.
    pub bytes_out: u64,
    /// How long it has run.
    pub running: Duration,
    /// Connections to the outside.
    pub connections: u64,
    /// Those that were denied.
    pub connections_denied: u64,
    /// Requests of plain HTTP that were let through.
    pub network_requests: u64,
    /// Bytes that its programs sent.
    pub network_bytes_up: u64,
    /// Bytes that its programs were sent.
    pub network_bytes_down: u64,
    /// Requests that the gateway has let through.
    pub gateway_requests: u64,
    /// What they have cost.
    pub gateway_cost: u64,
}

/// How a sandbox came to life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartView {
    /// Where its machine came from.
    pub kind: StartKind,
    /// How long it waited for room.
    pub queued: Duration,
    /// The steps, in order.
    pub stages: Vec<Stage>,
    /// All of it.
    pub total: Duration,
}

/// A sandbox as its tenant sees it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxView {
    /// Its name.
    pub id: SandboxId,
    /// Its owner.
    pub tenant: String,
    /// What it was made from.
    pub template: TemplateName,
    /// Where it is in its life.
    pub state: SandboxState,
    /// It is paused, and its memory was given back.
    pub without_memory: bool,
    /// How it ended.
    pub end: Option<End>,
    /// When it was created.
    pub created_at: SystemTime,
    /// When it will end if nothing changes.
    pub expires_at: Option<SystemTime>,
    /// How long it may go without a call.
    pub idle_timeout: Option<Duration>,
    /// What happens when its time is over.
    pub at_timeout: AtTimeout,
    /// The caller's own words.
    pub metadata: BTreeMap<String, String>,
    /// What it may use.
    pub limits: SandboxLimitsView,
    /// What it has used.
    pub usage: SandboxUsage,
    /// How it came to life.
    pub start: StartView,
    /// The name of its network policy.
    pub network: String,
    /// What its programs may ask of the gateway.
    pub gateway: Vec<String>,
    /// What they may spend there.
    pub gateway_budget: Option<u64>,
    /// How many turns it has, if they are bounded.
    pub turns: Option<TurnsView>,
    /// Where its result is to be, if that was said.
    pub result: Option<ResultView>,
}
