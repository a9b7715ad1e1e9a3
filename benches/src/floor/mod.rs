//! The least a start can cost on an engine: the monitor, started bare, and the shortest conversation that
//! ends with an answer of the agent's.
//!
//! Nothing of the supervisor is used but its client of the agent: no work directory, no control group, no
//! guard on files, no store, no pool. The machine is the same one: a real clone's command line is read and
//! only its ends on the host are put elsewhere. What a restore costs more than this is the supervisor's.

mod firecracker;
mod qemu;

use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rekindle::agent::AgentClient;
use rekindle::engine::{EngineKind, Stopwatch, Timings};
use tokio::net::UnixStream;

use crate::bed::{Bed, PATIENCE, gate_request};

pub use qemu::QemuFloor;

/// The floor of one engine, ready to be measured.
#[derive(Debug)]
pub enum Floor {
    /// QEMU's.
    Qemu(QemuFloor),
    /// Firecracker's.
    Firecracker(firecracker::FirecrackerFloor),
}

impl Floor {
    /// Looks at a real clone, to do the same.
    ///
    /// # Errors
    /// When there is none to look at, or the engine has no floor.
    pub async fn learn(bed: &Bed) -> Result<Self> {
        match bed.kind() {
            EngineKind::Qemu => Ok(Self::Qemu(QemuFloor::learn(bed).await?)),
            EngineKind::Firecracker => {
                Ok(Self::Firecracker(firecracker::FirecrackerFloor::learn(bed).await?))
            }
            EngineKind::Fake => bail!("the fake engine has no floor"),
        }
    }

    /// One start, from nothing to an open gate.
    ///
    /// # Errors
    /// When the monitor or the agent fails.
    pub async fn start(&self, bed: &Bed) -> Result<(Timings, Duration)> {
        match self {
            Self::Qemu(floor) => floor.start(bed).await,
            Self::Firecracker(floor) => floor.start(bed).await,
        }
    }
}

/// A monitor that is killed when it is let go of.
#[derive(Debug)]
struct Monitor(Child);

impl Monitor {
    fn spawn(command: &mut Command) -> Result<Self> {
        command.spawn().map(Self).with_context(|| format!("cannot start {:?}", command.get_program()))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// From a connected byte stream to an open gate.
async fn converse(stream: UnixStream, watch: &mut Stopwatch) -> Result<()> {
    let agent = AgentClient::connect(stream, PATIENCE).await?;
    watch.stage("hello");
    agent.restore(gate_request()?, PATIENCE).await?;
    watch.stage("gate");
    Ok(())
}
