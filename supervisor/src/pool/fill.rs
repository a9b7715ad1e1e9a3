//! Makes machines ahead of their callers, in tasks of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::config::PooledTemplate;
use super::lease::Ready;
use super::template::Kind;
use crate::agent::{AgentError, Code, ExecuteRequest, Finished, Language, Outcome, Program, Refusal};
use crate::host::cgroup::CpuWeight;
use crate::host::disk::LowDisk;
use crate::tuning::{self, Mechanism};
use crate::vm::{Identity, Plan, StartError, Vm, VmHost, prespawn_clone, restore_clone};

/// How long each program that primes a machine may take, on a busy host.
const PRIME_LIMIT: Duration = Duration::from_secs(30);
/// How long a machine may take to have tidied up after them and to have replaced the interpreter that was used.
const QUIET_LIMIT: Duration = Duration::from_secs(30);
/// How long a start may go on when the pool closes. After that it is abandoned, and undoes itself in the background.
const LAST_START: Duration = Duration::from_secs(10);
/// An agent answers before it has tidied up; so long until it is asked again.
const TIDYING: Duration = Duration::from_millis(5);

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum FillError {
    #[error("no machine could be started")]
    Start(#[source] StartError),
    #[error("it could not be primed")]
    Prime(#[source] AgentError),
    #[error("it could not be primed: {0:?}")]
    Unfit(Outcome),
    #[error("it could not be renewed")]
    Renew(#[source] StartError),
    #[error(transparent)]
    LowDisk(LowDisk),
    #[error("the pool is shutting down")]
    Closing,
}

/// Makes one, unless the pool closes meanwhile.
pub(super) async fn fill(
    host: Arc<VmHost>,
    template: Arc<PooledTemplate>,
    kind: Kind,
    mut closing: watch::Receiver<bool>,
) -> Result<Ready, FillError> {
    let cpu_weight = if tuning::on(Mechanism::CpuWeight) { CpuWeight::Spare } else { CpuWeight::InUse };
    let plan = Plan { cpu_weight, ..template.source.plan() };
    let made = async {
        match kind {
            Kind::Prespawned => {
                let waiting = prespawn_clone(&host, &template.snapshot, &plan).await;
                waiting.map(|waiting| Ready::Prespawned(Box::new(waiting)))
            }
            Kind::Parked => {
                let vm = restore_clone(&host, &template.snapshot, &plan, &Identity::default()).await;
                vm.map(|vm| Ready::Parked(Arc::new(vm)))
            }
        }
    };
    tokio::pin!(made);
    let made = tokio::select! {
        made = &mut made => made.map_err(FillError::Start)?,
        () = closed(&mut closing) => {
            // Seen to its end, so that nothing of it is left when the pool has closed.
            if let Ok(Ok(made)) = tokio::time::timeout(LAST_START, made).await {
                made.end().await;
            }
            return Err(FillError::Closing);
        }
    };
    let Ready::Parked(vm) = &made else { return Ok(made) };
    let primed = tokio::select! {
        primed = prime(&template, vm) => primed,
        () = closed(&mut closing) => Err(FillError::Closing),
    };
    match primed {
        Ok(()) => Ok(made),
        Err(error) => {
            made.end().await;
            Err(error)
        }
    }
}

/// Completes when the pool closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An actor that is gone closes as well.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Pays what the first use of everything costs, so that no caller does: the warm interpreter, a shell, and the
/// renewal itself, which also shows that the machine can be handed over at all. It is parked when it is at rest:
/// the next interpreter would start in its caller's time.
async fn prime(template: &PooledTemplate, vm: &Vm) -> Result<(), FillError> {
    if template.source.recipe.warm.python.is_some() {
        let code = Code { language: Language::Python.into(), source: "pass".to_owned() };
        run(vm, Program::Code(code)).await?;
    }
    run(vm, Program::Shell("true".to_owned())).await?;
    let quiet = async {
        loop {
            match vm.settle(QUIET_LIMIT).await {
                Err(StartError::Gate { source, .. }) if source.refusal() == Some(Refusal::Busy) => {
                    tokio::time::sleep(TIDYING).await;
                }
                renewed => return renewed.map_err(FillError::Renew),
            }
        }
    };
    let silent = || AgentError::Silent { operation: "renew", waited: QUIET_LIMIT };
    tokio::time::timeout(QUIET_LIMIT, quiet).await.unwrap_or_else(|_| Err(FillError::Prime(silent())))
}

async fn run(vm: &Vm, program: Program) -> Result<(), FillError> {
    let request = ExecuteRequest {
        program: Some(program),
        timeout_millis: u64::try_from(PRIME_LIMIT.as_millis()).unwrap_or(u64::MAX),
        ..ExecuteRequest::default()
    };
    match vm.agent().run(request).await.map_err(FillError::Prime)? {
        Finished { outcome: Outcome::Exited(0), .. } => Ok(()),
        Finished { outcome, .. } => Err(FillError::Unfit(outcome)),
    }
}
