//! What an agent says about itself when a session starts. Asked for by `connect` alone.

use std::fmt;

use rekindle_protocol::wire;
use serde::Serialize;

use crate::host::untrusted::printable;

/// Bytes kept of the agent's program version.
const MAX_PROGRAM_BYTES: usize = 256;

/// A version of the agent protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProtocolVersion {
    /// Peers must agree on it.
    pub major: u32,
    /// Peers may differ in it.
    pub minor: u32,
}

impl From<wire::Version> for ProtocolVersion {
    fn from(version: wire::Version) -> Self {
        Self { major: version.major, minor: version.minor }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An agent's introduction.
#[derive(Debug, Clone, Serialize)]
pub struct Hello {
    /// The protocol it speaks.
    pub version: ProtocolVersion,
    /// The version of its program, for logs.
    pub program: String,
    /// What it can do where it runs.
    pub capabilities: Capabilities,
    /// Whether its restore gate is open.
    pub gate_open: bool,
    /// Executions that are still being killed.
    pub running: u32,
}

/// What the place an agent runs in allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// How far a kill reaches.
    pub kill_scope: KillScope,
    /// Memory limits are enforced and out-of-memory deaths are told apart.
    pub memory_limits: bool,
    /// Process limits are enforced.
    pub pids_limits: bool,
    /// CPU limits are enforced.
    pub cpu_limits: bool,
    /// The agent is PID 1 of its guest.
    pub init: bool,
}

/// How far a kill reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KillScope {
    /// Every process of the execution, whatever it did to hide.
    Cgroup,
    /// The process group: a child that called setsid escapes.
    ProcessGroup,
}

impl Hello {
    /// Checks an introduction whose version was accepted.
    pub(super) fn from_wire(hello: &wire::HelloResponse) -> Result<Self, &'static str> {
        let version = hello.version.ok_or("a hello without a version")?;
        let capabilities = hello.capabilities.ok_or("a hello without capabilities")?;
        let kill_scope = match wire::KillScope::try_from(capabilities.kill_scope) {
            Ok(wire::KillScope::Cgroup) => KillScope::Cgroup,
            Ok(wire::KillScope::ProcessGroup) => KillScope::ProcessGroup,
            Ok(wire::KillScope::Unspecified) | Err(_) => return Err("an unknown scope of kills"),
        };
        Ok(Self {
            version: version.into(),
            program: printable(&hello.program, MAX_PROGRAM_BYTES),
            capabilities: Capabilities {
                kill_scope,
                memory_limits: capabilities.memory_limits,
                pids_limits: capabilities.pids_limits,
                cpu_limits: capabilities.cpu_limits,
                init: capabilities.init,
            },
            gate_open: hello.gate_open,
            running: hello.running,
        })
    }
}
