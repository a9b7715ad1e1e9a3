//! The task that keeps one sandbox: it pauses and resumes it when asked to, waits for whatever ends it first, ends
//! it, and says why. Nothing else changes the state of a sandbox.
//!
//! ```text
//!      ┌─ pause, resume
//!      └──▶ running ⇄ paused
//! a clock runs out ─┐
//! someone wants it ─┼──▶ ending ──▶ machine gone, budget and quota returned ──▶ ended, told to everyone
//! agent or VM lost ─┘
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument as _;

use super::detached::Cut;
use super::events::SandboxEventKind;
use super::ledger::TenantUsage;
use super::lifetime::Due;
use super::pause::TransitionRequest;
use super::pause_to_disk::Stopped;
use super::registry::{QuotaHold, Service};
use super::sandbox::{End, EndReason, Sandbox, SandboxState};
use crate::network::Grants;
use crate::pool::{ClaimRequest, Lease};
use crate::vm::Death;

/// How long the end of a conversation waits for news of its machine's death.
const VERDICT: Duration = Duration::from_millis(500);

/// What a sandbox holds on to until nothing of it is left.
#[derive(Debug)]
pub(super) struct Holdings {
    pub lease: Lease,
    pub quota: QuotaHold,
    /// What it was claimed with, for a machine that is booted in the place of its first.
    pub boot: ClaimRequest,
    /// What it has while it is paused without its memory.
    pub stopped: Option<Stopped>,
}

impl Holdings {
    /// Those of a sandbox that runs.
    pub(super) fn new(lease: Lease, quota: QuotaHold, boot: ClaimRequest) -> Self {
        Self { lease, quota, boot, stopped: None }
    }
}

/// Starts the task.
pub(super) fn keep(
    service: &Service,
    sandbox: Arc<Sandbox>,
    transitions: mpsc::Receiver<TransitionRequest>,
    holdings: Holdings,
) {
    let service = service.clone();
    let span = sandbox.span.clone();
    tokio::spawn(async move { run(&service, &sandbox, transitions, holdings).await }.instrument(span));
}

async fn run(
    service: &Service,
    sandbox: &Arc<Sandbox>,
    mut transitions: mpsc::Receiver<TransitionRequest>,
    mut holdings: Holdings,
) {
    let (reason, message) = wait(service, sandbox, &mut transitions, &mut holdings).await;
    tracing::info!(reason = reason.word(), why = message, "the sandbox ends");
    let ran = {
        let mut inner = sandbox.lock();
        inner.state = SandboxState::Ending;
        inner.lifetime.ran(Instant::now())
    };
    // Who still asks hears that it ends.
    drop(transitions);
    sandbox.refresh().await;
    sandbox.vm().end().await;
    let end = End { reason, message, at: SystemTime::now() };
    sandbox.end_detached(&Cut::Ended(end.clone())).await;
    if let Some(stopped) = holdings.stopped.take() {
        stopped.disk.close().await;
    }
    let usage = {
        let mut inner = sandbox.lock();
        inner.usage.running = ran;
        inner.keys.clear();
        inner.usage
    };
    // Only now is the room free: the machine is gone.
    drop(holdings);
    let network = sandbox.gate.summary();
    let gateway_day = sandbox.gate.grants().map(Grants::cost_of_last_day).unwrap_or_default();
    let memory_mib_seconds = sandbox.facts.memory_mib.saturating_mul(ran.as_secs().max(1));
    service.ledger().add(
        &sandbox.facts.tenant,
        &TenantUsage {
            sandboxes: 1,
            executions: usage.executions,
            running_millis: u64::try_from(ran.as_millis()).unwrap_or(u64::MAX),
            cpu_micros: usage.machine.cpu_usec.unwrap_or(0),
            memory_mib_seconds,
            bytes_in: usage.bytes_in,
            bytes_out: usage.bytes_out,
            connections: network.connections,
            network_requests: sandbox.gate.requests(),
            network_bytes_up: network.up,
            network_bytes_down: network.down,
            gateway_cost: sandbox.gate.grants().map(Grants::cost).unwrap_or_default(),
            gateway_day: gateway_day.day,
            gateway_day_cost: gateway_day.cost,
        },
    );
    sandbox.gate.journal().ended();
    service.retire(sandbox, end);
    service.events().tell(SandboxEventKind::Ended, sandbox.view());
}

/// Makes the transitions that are asked for, until the first reason to end it.
async fn wait(
    service: &Service,
    sandbox: &Sandbox,
    transitions: &mut mpsc::Receiver<TransitionRequest>,
    holdings: &mut Holdings,
) -> (EndReason, String) {
    loop {
        if let Some(wanted) = sandbox.wanted() {
            return wanted;
        }
        let due = sandbox.lock().lifetime.due();
        let clock = async {
            match due {
                Some((at, due)) => {
                    sleep_until(at).await;
                    due
                }
                None => std::future::pending().await,
            }
        };
        // One that is paused without its memory has no machine to lose.
        let (vm, has_machine) = (sandbox.vm(), holdings.stopped.is_none());
        tokio::select! {
            biased;
            death = vm.ended(), if has_machine => return lost(&death),
            () = vm.agent().closed(), if has_machine => {
                // A machine that dies takes its agent along, and says more about why.
                return match timeout(VERDICT, vm.ended()).await {
                    Ok(death) => lost(&death),
                    Err(_) => (EndReason::AgentLost, "the agent in the sandbox hung up".into()),
                };
            }
            () = sandbox.woken() => {}
            due = clock => {
                // The clock may have been changed while this one ran.
                let still = sandbox.lock().lifetime.due().filter(|(at, _)| *at <= Instant::now());
                match still.map(|_| due) {
                    Some(Due::Ttl) if service.paused_at_timeout(sandbox, holdings).await => {}
                    Some(Due::Ttl) => return (EndReason::Expired, "its time to live was over".into()),
                    Some(Due::Idle) => return (EndReason::Idle, "nobody used it for its idle timeout".into()),
                    Some(Due::Pause) => {
                        let message = "it was paused for longer than this server allows";
                        return (EndReason::Expired, message.into());
                    }
                    None => {}
                }
            }
            // After the clocks: who asks without end must not outlive them. Never dropped half-way: only a select that
            // waits is.
            Some(request) = transitions.recv() => service.make_transition(sandbox, holdings, request).await,
        }
    }
}

fn lost(death: &Death) -> (EndReason, String) {
    match death {
        Death::Lost { out_of_memory: true, .. } => (EndReason::OutOfMemory, death.to_string()),
        Death::Lost { .. } | Death::Stopped => (EndReason::VmLost, death.to_string()),
    }
}
