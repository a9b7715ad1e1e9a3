//! Makes a parked process the process of an execution.

use std::os::fd::BorrowedFd;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_protocol::wire::Language;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::cgroup::ExecutionGroup;
use crate::exec::child::Child;
use crate::exec::spec::Spec;
use crate::reaper::Exit;
use crate::warm::fits::fits;
use crate::warm::request::encode;

/// The process, if a warm interpreter fits the execution and one is there. `None` means: start one.
pub async fn claim(
    agent: &Agent,
    spec: &Spec,
    stdio: [BorrowedFd<'_>; 3],
    group: Option<&ExecutionGroup>,
) -> Option<(Child, oneshot::Receiver<Exit>)> {
    let language = fits(agent, spec)?;
    let parked = match (agent.warm.take(language), language) {
        (Some(parked), _) => parked,
        // A copy is still made sooner than an interpreter started.
        (None, Language::Python) => agent.warm.forker()?.park(agent).await.ok()?,
        (None, _) => return None,
    };
    let pid = Pid::from_raw(parked.pid);
    if group.is_some_and(|group| group.take_in(parked.pid).is_err()) {
        let _ = kill(pid, Signal::SIGKILL);
        return None;
    }
    match parked.take_over(&encode(spec, stdio)).await {
        Ok(claimed) => Some(claimed),
        Err(_) => {
            // It has ended, or will now.
            let _ = kill(pid, Signal::SIGKILL);
            None
        }
    }
}
