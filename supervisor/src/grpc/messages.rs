//! The service's answers in the API's words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rekindle_api::v1;

use crate::agent::{DiagnosisKind, FileInfo, FileKind, Finished, Interpreter, Outcome, Output};
use crate::pool::StartKind;
use crate::service::{
    End, EndReason, Executed, SandboxEvent, SandboxEventKind, SandboxState, SandboxView, StartView, Timeline,
    TimelineEntry,
};

/// Unix milliseconds.
pub(super) fn millis_at(at: SystemTime) -> u64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A sandbox.
pub(super) fn sandbox(view: SandboxView) -> v1::Sandbox {
    let state = match view.state {
        SandboxState::Running => v1::SandboxState::Running,
        SandboxState::Paused => v1::SandboxState::Paused,
        SandboxState::Ending => v1::SandboxState::Ending,
        SandboxState::Ended => v1::SandboxState::Ended,
    };
    v1::Sandbox {
        id: view.id.to_string(),
        template: view.template.to_string(),
        state: state.into(),
        end: view.end.as_ref().map(end),
        created_at_millis: millis_at(view.created_at),
        expires_at_millis: view.expires_at.map_or(0, millis_at),
        idle_timeout_millis: view.idle_timeout.map_or(0, millis),
        metadata: view.metadata.into_iter().collect(),
        limits: Some(v1::Limits {
            cpu_millis: view.limits.cpu_millis,
            memory_bytes: view.limits.memory_bytes,
            pids: view.limits.pids,
        }),
        usage: Some(v1::SandboxUsage {
            executions: view.usage.executions,
            cpu_micros: view.usage.machine.cpu_usec.unwrap_or(0),
            memory_bytes: view.usage.machine.memory_bytes.unwrap_or(0),
            memory_peak_bytes: view.usage.machine.memory_peak_bytes.unwrap_or(0),
            bytes_in: view.usage.bytes_in,
            bytes_out: view.usage.bytes_out,
            running_millis: millis(view.usage.running),
        }),
        start: Some(start(&view.start)),
        tenant: view.tenant,
    }
}

fn start(start: &StartView) -> v1::Start {
    let kind = match start.kind {
        StartKind::Parked => v1::StartKind::Parked,
        StartKind::Prespawned => v1::StartKind::Prespawned,
        StartKind::Restored => v1::StartKind::Restored,
    };
    v1::Start {
        kind: kind.into(),
        queued_micros: micros(start.queued),
        stages: start
            .stages
            .iter()
            .map(|stage| v1::Stage { name: stage.name.to_owned(), micros: micros(stage.took) })
            .collect(),
        total_micros: micros(start.total),
    }
}

/// How a sandbox ended.
pub(super) fn end(end: &End) -> v1::End {
    let reason = match end.reason {
        EndReason::Destroyed => v1::EndReason::Destroyed,
        EndReason::Expired => v1::EndReason::Expired,
        EndReason::Idle => v1::EndReason::Idle,
        EndReason::OutOfMemory => v1::EndReason::OutOfMemory,
        EndReason::AgentLost => v1::EndReason::AgentLost,
        EndReason::VmLost => v1::EndReason::VmLost,
        EndReason::Shutdown => v1::EndReason::Shutdown,
    };
    v1::End { reason: reason.into(), message: end.message.clone(), at_millis: millis_at(end.at) }
}

/// A finished execution.
pub(super) fn executed(executed: &Executed) -> v1::ExecuteResponse {
    let Finished { outcome, stdout, stderr, usage, diagnosis, interpreter } = &*executed.finished;
    let (outcome, exit_code, signal) = match *outcome {
        Outcome::Exited(code) => (v1::Outcome::Exited, code.into(), 0),
        Outcome::Signaled(signal) => (v1::Outcome::Signaled, 0, signal.into()),
        Outcome::TimedOut => (v1::Outcome::TimedOut, 0, 0),
        Outcome::OutOfMemory => (v1::Outcome::OutOfMemory, 0, 0),
        Outcome::Cancelled => (v1::Outcome::Cancelled, 0, 0),
    };
    v1::ExecuteResponse {
        execution: executed.execution.to_string(),
        outcome: outcome.into(),
        exit_code,
        signal,
        stdout: Some(output(stdout)),
        stderr: Some(output(stderr)),
        usage: Some(v1::ExecutionUsage {
            wall_micros: usage.wall_micros,
            cpu_micros: usage.cpu_micros,
            peak_memory_bytes: usage.peak_memory_bytes.unwrap_or(0),
        }),
        diagnosis: diagnosis.as_ref().map(|diagnosis| v1::Diagnosis {
            kind: match diagnosis.kind {
                DiagnosisKind::MissingModule => "missing_module",
                DiagnosisKind::SyntaxError => "syntax_error",
                DiagnosisKind::UncaughtException => "uncaught_exception",
                DiagnosisKind::MissingCommand => "missing_command",
            }
            .to_owned(),
            subject: diagnosis.subject.clone(),
        }),
        warm_interpreter: *interpreter == Some(Interpreter::Warmed),
        replayed: executed.replayed,
    }
}

fn output(output: &Output) -> v1::Output {
    v1::Output {
        text: output.text.clone(),
        truncated: output.truncated,
        total_bytes: output.total_bytes,
        total_chars: output.total_chars,
        spilled_path: output.spilled_path.as_ref().map(|path| bytes(path.as_bytes())).unwrap_or_default(),
        spilled_bytes: output.spilled_bytes,
    }
}

/// A file.
pub(super) fn file(info: &FileInfo) -> v1::FileInfo {
    let kind = match info.kind {
        FileKind::File => v1::FileKind::File,
        FileKind::Directory => v1::FileKind::Directory,
        FileKind::Symlink => v1::FileKind::Symlink,
        FileKind::Other => v1::FileKind::Other,
    };
    v1::FileInfo {
        path: bytes(info.path.as_bytes()),
        kind: kind.into(),
        size: info.size,
        mode: info.mode,
        uid: info.uid,
        gid: info.gid,
        modified_nanos: info.modified_nanos,
        link_target: info.link_target.as_ref().map(|path| bytes(path.as_bytes())).unwrap_or_default(),
        sha256: info.sha256.as_ref().map(|digest| bytes(&digest.0)).unwrap_or_default(),
    }
}

fn bytes(slice: &[u8]) -> Bytes {
    Bytes::copy_from_slice(slice)
}

/// Something that happened.
pub(super) fn event(event: SandboxEvent) -> v1::Event {
    let kind = match event.kind {
        SandboxEventKind::Existing => v1::EventKind::Existing,
        SandboxEventKind::Created => v1::EventKind::Created,
        SandboxEventKind::Paused => v1::EventKind::Paused,
        SandboxEventKind::Resumed => v1::EventKind::Resumed,
        SandboxEventKind::TimeoutChanged => v1::EventKind::TimeoutChanged,
        SandboxEventKind::Ended => v1::EventKind::Ended,
    };
    v1::Event { kind: kind.into(), at_millis: millis_at(event.at), sandbox: Some(sandbox(event.sandbox)) }
}

/// What happened in a sandbox.
pub(super) fn timeline(timeline: Timeline) -> v1::TimelineResponse {
    let entry = |entry: TimelineEntry| v1::TimelineEntry {
        call: entry.call.to_owned(),
        execution: entry.execution.map(|id| id.to_string()).unwrap_or_default(),
        subject: entry.subject,
        at_millis: millis_at(entry.at),
        duration_micros: micros(entry.took),
        outcome: entry.outcome,
        cpu_micros: entry.cpu_micros,
        peak_memory_bytes: entry.peak_memory_bytes,
        bytes_in: entry.bytes_in,
        bytes_out: entry.bytes_out,
    };
    v1::TimelineResponse {
        entries: timeline.entries.into_iter().map(entry).collect(),
        dropped: timeline.dropped,
    }
}
