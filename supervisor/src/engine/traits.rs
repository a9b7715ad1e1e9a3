//! The contract every engine keeps. `supervisor/tests/engine_contract` holds engines to it.
//!
//! ```text
//! launch ─────────────────────────▶ running ◀──resume── paused ──snapshot──▶ frozen
//! prespawn ──▶ prespawned ──load──▶ running ──pause──▶ paused        (any) ──kill──▶ ended
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{BootSpec, Capabilities, EngineError, EngineIdentity, RestoreSpec, SnapshotFiles, Timings};
use crate::host::process::{ExitReport, ProcessIdentity};

/// A future that can cross threads and be named in a trait.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connection to the guest's agent: bytes in, bytes out.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A machine that runs, and how long each step to get there took.
#[derive(Debug)]
pub struct Started {
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// The steps, in order; they add up to the whole.
    pub timings: Timings,
}

/// A kind of virtual machine monitor on this host.
///
/// Every call is safe to cancel by dropping its future: what it had started is ended.
pub trait Engine: Send + Sync + fmt::Debug {
    /// What a snapshot made by this engine depends on.
    fn identity(&self) -> &EngineIdentity;

    /// What this engine can do here.
    fn capabilities(&self) -> &Capabilities;

    /// Boots a machine. It returns when the monitor runs; the guest's agent takes its own time.
    fn launch(&self, spec: BootSpec) -> BoxFuture<'_, Result<Started, EngineError>>;

    /// Starts a monitor that waits with everything in place for [`PrespawnedMonitor::load`].
    fn prespawn(&self, spec: RestoreSpec) -> BoxFuture<'_, Result<Box<dyn PrespawnedMonitor>, EngineError>>;

    /// Restores a snapshot into a running machine.
    fn restore(&self, spec: RestoreSpec) -> BoxFuture<'_, Result<Started, EngineError>> {
        Box::pin(async move { self.prespawn(spec).await?.load().await })
    }
}

/// A monitor waiting for its snapshot. A failed load consumes it.
pub trait PrespawnedMonitor: Send + Sync + fmt::Debug {
    /// The monitor's process, for the record that survives the supervisor.
    fn process(&self) -> Option<&ProcessIdentity>;

    /// Loads the snapshot and lets the guest run.
    fn load(self: Box<Self>) -> BoxFuture<'static, Result<Started, EngineError>>;
}

/// One virtual machine. Dropping it ends it.
pub trait Machine: Send + Sync + fmt::Debug {
    /// The monitor's process, for the record that survives the supervisor.
    fn process(&self) -> Option<&ProcessIdentity>;

    /// Stops the guest's processors. Pausing a paused machine is fine.
    fn pause(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Lets them run again. Refused once the machine is frozen: its memory is the snapshot's.
    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Pauses the machine for good and completes the snapshot it was launched for.
    ///
    /// The caller makes sure the guest is quiescent and the agent's connection closed.
    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotFiles, EngineError>>;

    /// Connects to the guest's agent. One connection at a time: a second waits for the first to close.
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, EngineError>>;

    /// Ends the machine at once and waits until its process is gone.
    fn kill(&self) -> BoxFuture<'_, ExitReport>;

    /// Waits for the machine's end, however it comes.
    fn wait(&self) -> BoxFuture<'_, ExitReport>;

    /// How the machine ended, if it has.
    fn try_exit(&self) -> Option<ExitReport>;

    /// The end of what the guest's console and the monitor printed, for a person looking for a cause.
    fn last_words(&self) -> String;
}
