//! The service's answers in the API's words.

use std::time::Duration;

use bytes::Bytes;
use rekindle_api::time::{duration, timestamp};
use rekindle_api::{Timestamp, v1};

use super::{network, status};
use crate::agent::{
    FileEventKind, FileInfo, FileKind, Finished, GuestPath, Interpreter, Outcome, Output, SpillPaths,
};
use crate::door::SandboxPorts;
use crate::network::NetworkSummary;
use crate::pool::StartKind;
use crate::service::{
    AtTimeout, Diagnosis, End, EndReason, Executed, ExecutionId, FileChange, JobState, JobView, SandboxEvent,
    SandboxEventKind, SandboxState, SandboxView, StartView, StepSums, Timeline, TimelineEntry,
    TimelineOutcome, TraceEntry, TraceTimeline,
};

/// A sandbox.
pub(super) fn sandbox(view: SandboxView) -> v1::Sandbox {
    let state = match view.state {
        SandboxState::Running => v1::SandboxState::Running,
        SandboxState::Paused => v1::SandboxState::Paused,
        SandboxState::Ending => v1::SandboxState::Ending,
        SandboxState::Ended => v1::SandboxState::Ended,
    };
    let on_timeout = match view.at_timeout {
        AtTimeout::End => v1::OnTimeout::Destroy,
        AtTimeout::Pause { auto_resume: false } => v1::OnTimeout::Pause,
        AtTimeout::Pause { auto_resume: true } => v1::OnTimeout::PauseUntilUsed,
        AtTimeout::PauseWithoutMemory => v1::OnTimeout::PauseWithoutMemory,
    };
    v1::Sandbox {
        id: view.id.to_string(),
        template: view.template.to_string(),
        state: state.into(),
        end: view.end.as_ref().map(end),
        created_at: Some(timestamp(view.created_at)),
        expires_at: view.expires_at.map(timestamp),
        idle_timeout: view.idle_timeout.map(duration),
        metadata: view.metadata,
        limits: Some(v1::Limits {
            milli_cpus: view.limits.milli_cpus,
            memory_bytes: view.limits.memory_bytes,
            pids: view.limits.pids,
        }),
        usage: Some(v1::SandboxUsage {
            executions: view.usage.executions,
            cpu_time: view.usage.machine.cpu_usec.map(Duration::from_micros).map(duration),
            memory_bytes: view.usage.machine.memory_bytes,
            memory_peak_bytes: view.usage.machine.memory_peak_bytes,
            bytes_in: view.usage.bytes_in,
            bytes_out: view.usage.bytes_out,
            running_time: Some(duration(view.usage.running)),
            connections: view.usage.connections,
            connections_denied: view.usage.connections_denied,
            network_requests: view.usage.network_requests,
            network_bytes_up: view.usage.network_bytes_up,
            network_bytes_down: view.usage.network_bytes_down,
            gateway_requests: view.usage.gateway_requests,
            gateway_cost: view.usage.gateway_cost,
        }),
        start: Some(start(&view.start)),
        tenant: view.tenant,
        network: view.network,
        on_timeout: on_timeout.into(),
        gateway: view.gateway,
        gateway_budget: view.gateway_budget,
        turns: view.turns.map(|turns| v1::SandboxTurns { max: turns.most, left: turns.left }),
        result: view.result.map(|result| v1::SandboxResult { path: result.path, exists: result.exists }),
        without_memory: view.without_memory,
        ports: None,
    }
}

/// How its ports are reached.
pub(super) fn ports(ports: SandboxPorts) -> v1::SandboxPorts {
    let SandboxPorts { url, token } = ports;
    v1::SandboxPorts { url, token }
}

fn start(start: &StartView) -> v1::SandboxStart {
    let kind = match start.kind {
        StartKind::Parked => v1::SandboxStartKind::Parked,
        StartKind::Prespawned => v1::SandboxStartKind::Prespawned,
        StartKind::Restored => v1::SandboxStartKind::Restored,
    };
    let stages = start.stages.iter().map(|stage| v1::SandboxStartStage {
        name: stage.name.to_owned(),
        duration: Some(duration(stage.took)),
    });
    v1::SandboxStart {
        kind: kind.into(),
        queued: Some(duration(start.queued)),
        stages: stages.collect(),
        total: Some(duration(start.total)),
    }
}

/// How a sandbox ended.
pub(super) fn end(end: &End) -> v1::SandboxEnd {
    v1::SandboxEnd {
        reason: end_reason(end.reason).into(),
        message: end.message.clone(),
        ended_at: Some(timestamp(end.at)),
    }
}

fn end_reason(reason: EndReason) -> v1::SandboxEndReason {
    match reason {
        EndReason::Destroyed => v1::SandboxEndReason::Destroyed,
        EndReason::Expired => v1::SandboxEndReason::Expired,
        EndReason::Idle => v1::SandboxEndReason::Idle,
        EndReason::OutOfMemory => v1::SandboxEndReason::OutOfMemory,
        EndReason::AgentLost => v1::SandboxEndReason::AgentLost,
        EndReason::VmLost => v1::SandboxEndReason::VmLost,
        EndReason::Shutdown => v1::SandboxEndReason::Shutdown,
    }
}

fn outcome(outcome: Outcome) -> v1::ExecutionOutcome {
    use v1::execution_outcome::Outcome as Api;
    let outcome = match outcome {
        Outcome::Exited(code) => Api::ExitCode(code.into()),
        Outcome::Signaled(signal) => Api::Signal(signal.into()),
        Outcome::TimedOut => Api::TimedOut(v1::ExecutionTimedOut {}),
        Outcome::OutOfMemory => Api::OutOfMemory(v1::ExecutionOutOfMemory {}),
        Outcome::Cancelled => Api::Cancelled(v1::ExecutionCancelled {}),
    };
    v1::ExecutionOutcome { outcome: Some(outcome) }
}

/// A finished execution.
pub(super) fn executed(executed: &Executed) -> v1::ExecuteResponse {
    let Executed { execution, finished, network, diagnosis, turns, replayed } = executed;
    let diagnosis = diagnosis.as_deref();
    let response = execute_response(execution.to_string(), finished, network, diagnosis);
    v1::ExecuteResponse {
        replayed: *replayed,
        turns_left: turns.as_ref().map(|turns| turns.left),
        warning: turns.as_ref().and_then(|turns| turns.warning.clone()).unwrap_or_default(),
        ..response
    }
}

/// A detached execution.
pub(super) fn detached(job: JobView) -> v1::DetachedExecution {
    use v1::detached_execution::State;
    let state = match job.state {
        JobState::Running => State::Running(v1::ExecutionRunning {}),
        JobState::Ended(ended) => State::Outcome(outcome(ended)),
        JobState::Failed(kind) => State::Error(status::reason(kind).into()),
    };
    v1::DetachedExecution {
        execution: job.execution.to_string(),
        pid: job.pid,
        subject: job.subject,
        started_at: Some(timestamp(job.at)),
        duration: Some(duration(job.took)),
        state: Some(state),
        stdout_bytes: job.stdout_bytes,
        stderr_bytes: job.stderr_bytes,
        takes_input: job.takes_input,
        terminal: job.terminal,
        stdout_path: path(job.spilled.stdout.as_ref()),
        stderr_path: path(job.spilled.stderr.as_ref()),
    }
}

/// A program that runs.
pub(super) fn started(execution: ExecutionId, pid: u32, spilled: &SpillPaths) -> v1::ExecuteStarted {
    v1::ExecuteStarted {
        execution: execution.to_string(),
        pid,
        stdout_path: path(spilled.stdout.as_ref()),
        stderr_path: path(spilled.stderr.as_ref()),
    }
}

/// Output that is not told.
pub(super) fn missed(stdout: u64, stderr: u64, spilled: &SpillPaths) -> v1::MissedOutput {
    v1::MissedOutput {
        stdout_bytes: stdout,
        stderr_bytes: stderr,
        stdout_path: path(spilled.stdout.as_ref()),
        stderr_path: path(spilled.stderr.as_ref()),
    }
}

/// A path in the sandbox; empty where there is none.
fn path(path: Option<&GuestPath>) -> Bytes {
    path.map(|path| bytes(path.as_bytes())).unwrap_or_default()
}

/// The answer to an execution that has ended.
#[must_use]
pub fn execute_response(
    execution: String,
    finished: &Finished,
    network: &NetworkSummary,
    found: Option<&Diagnosis>,
) -> v1::ExecuteResponse {
    let Finished { outcome: ended, stdout, stderr, usage, interpreter, .. } = finished;
    v1::ExecuteResponse {
        execution,
        outcome: Some(outcome(*ended)),
        stdout: Some(output(stdout)),
        stderr: Some(output(stderr)),
        usage: Some(v1::ExecutionUsage {
            wall_time: Some(duration(Duration::from_micros(usage.wall_micros))),
            cpu_time: Some(duration(Duration::from_micros(usage.cpu_micros))),
            memory_peak_bytes: usage.peak_memory_bytes,
        }),
        diagnosis: found.map(diagnosis),
        warm_interpreter: *interpreter == Some(Interpreter::Warmed),
        replayed: false,
        network: (network.connections > 0).then(|| network::summary(network)),
        turns_left: None,
        warning: String::new(),
    }
}

/// What went wrong.
pub(super) fn diagnosis(diagnosis: &Diagnosis) -> v1::Diagnosis {
    v1::Diagnosis {
        kind: diagnosis.category.word().to_owned(),
        subject: diagnosis.subject.clone(),
        hint: diagnosis.hint.clone(),
        near: diagnosis.near.clone(),
    }
}

fn output(output: &Output) -> v1::Output {
    v1::Output {
        text: output.text.clone(),
        truncated: output.truncated,
        total_bytes: output.total_bytes,
        total_chars: output.total_chars,
        spilled_path: path(output.spilled_path.as_ref()),
        spilled_bytes: output.spilled_bytes,
    }
}

/// A file.
pub(super) fn file(info: &FileInfo) -> v1::FileInfo {
    let kind = |kind| match kind {
        FileKind::File => v1::FileKind::File,
        FileKind::Directory => v1::FileKind::Directory,
        FileKind::Symlink => v1::FileKind::Symlink,
        FileKind::Other => v1::FileKind::Other,
    };
    v1::FileInfo {
        path: bytes(info.path.as_bytes()),
        kind: kind(info.kind).into(),
        size: info.size,
        mode: info.mode,
        uid: info.uid,
        gid: info.gid,
        modified_at: Some(modified(info.modified_nanos)),
        link_target: info.link_target.as_ref().map(|path| bytes(path.as_bytes())).unwrap_or_default(),
        sha256: info.sha256.as_ref().map(|digest| bytes(&digest.0)).unwrap_or_default(),
        owner: info.owner.clone().unwrap_or_default(),
        group: info.group.clone().unwrap_or_default(),
        link_kind: info.link_kind.map_or(v1::FileKind::Unspecified, kind).into(),
        metadata: info.metadata.pairs().clone(),
    }
}

/// A change of a file.
pub(super) fn file_event(change: &FileChange) -> v1::FileEvent {
    let kind = match change.event.kind {
        FileEventKind::Created => v1::FileEventKind::Created,
        FileEventKind::Written => v1::FileEventKind::Written,
        FileEventKind::Removed => v1::FileEventKind::Removed,
        FileEventKind::Renamed => v1::FileEventKind::Renamed,
        FileEventKind::Changed => v1::FileEventKind::Changed,
    };
    let path = bytes(change.event.path.as_bytes());
    v1::FileEvent { path, kind: kind.into(), file: change.info.as_ref().map(file) }
}

fn modified(unix_nanos: i64) -> Timestamp {
    const SECOND: i64 = 1_000_000_000;
    Timestamp {
        seconds: unix_nanos.div_euclid(SECOND),
        // Less than a second's worth always fits.
        nanos: i32::try_from(unix_nanos.rem_euclid(SECOND)).unwrap_or(0),
    }
}

fn bytes(slice: &[u8]) -> Bytes {
    Bytes::copy_from_slice(slice)
}

/// Something that happened.
pub(super) fn event(event: SandboxEvent) -> v1::SandboxEvent {
    let kind = match event.kind {
        SandboxEventKind::Existing => v1::SandboxEventKind::Existing,
        SandboxEventKind::Created => v1::SandboxEventKind::Created,
        SandboxEventKind::Paused => v1::SandboxEventKind::Paused,
        SandboxEventKind::Resumed => v1::SandboxEventKind::Resumed,
        SandboxEventKind::TimeoutChanged => v1::SandboxEventKind::TimeoutChanged,
        SandboxEventKind::NetworkChanged => v1::SandboxEventKind::NetworkChanged,
        SandboxEventKind::Ended => v1::SandboxEventKind::Ended,
    };
    v1::SandboxEvent {
        kind: kind.into(),
        at: Some(timestamp(event.at)),
        sandbox: Some(sandbox(event.sandbox)),
    }
}

/// What happened in a sandbox.
pub(super) fn timeline(sandbox: &str, timeline: Timeline) -> v1::SandboxTimelineResponse {
    v1::SandboxTimelineResponse {
        entries: timeline.entries.into_iter().map(|entry| timeline_entry(sandbox, entry)).collect(),
        dropped: timeline.dropped,
        steps: Vec::new(),
    }
}

/// What happened in a trace.
pub(super) fn trace(trace: TraceTimeline) -> v1::SandboxTimelineResponse {
    let step = |sums: StepSums| v1::TimelineStep {
        step: sums.step.map(|step| step.to_string()).unwrap_or_default(),
        calls: sums.calls,
        executions: sums.executions,
        failures: sums.failures,
        duration: Some(duration(sums.took)),
        cpu_time: Some(duration(sums.cpu_time)),
        bytes_in: sums.bytes_in,
        bytes_out: sums.bytes_out,
        connections: sums.connections,
        connections_denied: sums.connections_denied,
        network_up: sums.network_up,
        network_down: sums.network_down,
        gateway_cost: sums.gateway_cost,
    };
    let entry = |TraceEntry { sandbox, entry }| timeline_entry(sandbox.as_str(), entry);
    v1::SandboxTimelineResponse {
        entries: trace.entries.into_iter().map(entry).collect(),
        dropped: trace.dropped,
        steps: trace.steps.into_iter().map(step).collect(),
    }
}

fn timeline_entry(sandbox: &str, entry: TimelineEntry) -> v1::TimelineEntry {
    v1::TimelineEntry {
        call: entry.call.to_owned(),
        execution: entry.execution.map(|id| id.to_string()).unwrap_or_default(),
        subject: entry.subject,
        started_at: Some(timestamp(entry.at)),
        duration: Some(duration(entry.took)),
        outcome: Some(v1::TimelineOutcome { outcome: Some(timeline_outcome(entry.outcome)) }),
        cpu_time: entry.execution.map(|_| duration(entry.cpu_time)),
        memory_peak_bytes: entry.memory_peak_bytes,
        bytes_in: entry.bytes_in,
        bytes_out: entry.bytes_out,
        connections: entry.connections,
        connections_denied: entry.connections_denied,
        sandbox: sandbox.to_owned(),
        trace: entry.origin.trace_id().map(|id| id.to_string()).unwrap_or_default(),
        span: entry.origin.trace.map(|trace| trace.span()).unwrap_or_default(),
        step: entry.origin.step.map(|step| step.to_string()).unwrap_or_default(),
        network_up: entry.network_up,
        network_down: entry.network_down,
        gateway_cost: entry.gateway_cost,
    }
}

fn timeline_outcome(came_of_it: TimelineOutcome) -> v1::timeline_outcome::Outcome {
    use v1::timeline_outcome::Outcome as Api;
    match came_of_it {
        TimelineOutcome::Done => Api::Done(v1::TimelineDone {}),
        TimelineOutcome::Execution(ended) => Api::Execution(outcome(ended)),
        TimelineOutcome::Failed(kind) => Api::Error(status::reason(kind).into()),
        TimelineOutcome::Ended(reason) => Api::End(end_reason(reason).into()),
        TimelineOutcome::Cancelled => Api::Cancelled(v1::TimelineCancelled {}),
    }
}
