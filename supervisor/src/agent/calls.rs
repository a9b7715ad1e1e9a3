//! The short calls: one request about a guest or one of its executions, and one reply.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_protocol::wire::{
    ClockRequest, PingRequest, PoweroffRequest, QuiesceRequest, ResizeRequest, RestoreRequest, SignalRequest,
    StopRequest, TerminalSize, WarmRequest, request::Op, response::Reply,
};

use super::client::AgentClient;
use super::error::{AgentError, Refusal};

/// The guest's clocks. A guest can say anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    /// Its wall clock in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// Nanoseconds since it booted.
    pub boot_nanos: u64,
}

impl AgentClient {
    /// Brings fresh entropy, the time, a name and limits. Only its success opens the gate.
    ///
    /// # Errors
    /// See [`AgentError`]; after any of them the guest must not be used.
    pub async fn restore(&self, request: RestoreRequest, within: Duration) -> Result<(), AgentError> {
        self.command("restore", Op::Restore(request), within).await
    }

    /// Starts the interpreters and returns when they wait.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn warm(&self, request: WarmRequest, within: Duration) -> Result<(), AgentError> {
        self.command("warm", Op::Warm(request), within).await
    }

    /// Closes the gate and syncs; refused as busy while something runs.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn quiesce(&self, drop_caches: bool, within: Duration) -> Result<(), AgentError> {
        self.command("quiesce", Op::Quiesce(QuiesceRequest { drop_caches }), within).await
    }

    /// Ends all programs, which have `grace` for it, and leaves everything on the scratch disk.
    ///
    /// # Errors
    /// See [`AgentError`]; refused, the guest goes on without its programs. Agents before protocol 3.9 refuse it as
    /// unknown.
    pub async fn stop(&self, grace: Duration, within: Duration) -> Result<(), AgentError> {
        let grace_millis = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.command("stop", Op::Stop(StopRequest { grace_millis }), within).await
    }

    /// Sets the clock to the host's.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.4 refuse it as unknown.
    pub async fn set_clock(&self, within: Duration) -> Result<(), AgentError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.command("clock", Op::Clock(ClockRequest { unix_nanos }), within).await
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn ping(&self, within: Duration) -> Result<Pong, AgentError> {
        match self.call("ping", Op::Ping(PingRequest {}), within).await? {
            (_, Reply::Pong(pong)) => Ok(Pong { unix_nanos: pong.unix_nanos, boot_nanos: pong.boot_nanos }),
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }

    /// Sends a signal to an execution's first process, or to `everyone` in it.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn signal(
        &self,
        execution: u64,
        signal: u8,
        everyone: bool,
        within: Duration,
    ) -> Result<(), AgentError> {
        let request = SignalRequest { execution, signal: signal.into(), everyone };
        self.command("signal", Op::Signal(request), within).await
    }

    /// Whether an execution's program runs, which its stream does not tell while nobody reads what the program wrote.
    /// Agents before protocol 3.5 cannot tell; of theirs everything runs.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn runs(&self, execution: u64, within: Duration) -> Result<bool, AgentError> {
        match self.signal(execution, 0, false, within).await {
            Ok(()) => Ok(true),
            Err(error) => match error.refusal() {
                Some(Refusal::NotFound) => Ok(false),
                Some(Refusal::InvalidArgument) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Tells an execution's terminal its new size.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn resize(
        &self,
        execution: u64,
        size: TerminalSize,
        within: Duration,
    ) -> Result<(), AgentError> {
        let request = ResizeRequest { execution, size: Some(size) };
        self.command("resize", Op::Resize(request), within).await
    }

    /// Asks the guest to go down. Success means that it has begun to, not that it is gone.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn poweroff(&self, within: Duration) -> Result<(), AgentError> {
        self.command("poweroff", Op::Poweroff(PoweroffRequest {}), within).await
    }
}
