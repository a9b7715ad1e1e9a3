//! Closes the gate and makes the guest quiet, so that it can be frozen.

use std::io;
use std::sync::Arc;

use rekindle_protocol::wire::{self, ErrorCode};

use crate::agent::Agent;
use crate::failure::Failure;
use crate::restore::gate::State;
use crate::restore::reseed;

/// Closes the gate and leaves the guest quiet.
///
/// # Errors
/// When something is still under way.
pub async fn quiesce(agent: &Arc<Agent>, request: &wire::QuiesceRequest) -> Result<(), Failure> {
    let busy = agent.busy();
    if busy > 0 {
        let message = format!("{busy} operations are under way");
        return Err(Failure::new(ErrorCode::Busy, message));
    }
    *agent.gate.lock() = State::Closed;
    agent.executions.tidied().await;
    agent.interpreters.settled().await;
    let drop_caches = request.drop_caches;
    let quiet = tokio::task::spawn_blocking(move || {
        reseed::forget_dead()?;
        nix::unistd::sync();
        if drop_caches {
            std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        }
        io::Result::Ok(())
    });
    let quiet = match quiet.await {
        Ok(Ok(())) => agent.tuning.before_snapshot(agent).await,
        Ok(Err(error)) => Err(error),
        Err(error) => return Err(Failure::new(ErrorCode::Internal, error.to_string())),
    };
    quiet.map_err(|error| Failure::internal("make the guest quiet", &error))
}
