//! Connects to a port that a program in a sandbox serves.

use std::sync::Arc;
use std::time::Duration;

use super::call::Call;
use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::id::SandboxId;
use super::pause;
use super::registry::Service;
use super::sandbox::Sandbox;
use crate::agent::{PortStream, Refusal};
use crate::telemetry::Origin;

/// How long a connection waits for its turn, and how long the agent may take, which tries two addresses. Far more than
/// an agent that lives needs: one that says nothing by then is lost, and its sandbox with it.
const WITHIN: Duration = Duration::from_secs(30);

/// Who connects to a port.
#[derive(Debug, Clone, Copy)]
pub enum Visitor<'a> {
    /// Somebody who shows who they are: their tenant's sandboxes.
    Caller(&'a Caller),
    /// Anybody who knows a sandbox's name: those whose maker wants that.
    Anyone,
}

/// A connection to a port of a sandbox.
#[derive(Debug)]
pub struct PortConnection {
    /// The program's bytes as they are.
    pub stream: PortStream,
    /// What is to be held as long as the connection.
    pub hold: PortHold,
    /// What the program is to be told that it is called, where its sandbox's maker wants something else than visitors
    /// call it.
    pub host: Option<String>,
}

/// Keeps a sandbox from being idle. It keeps it from nothing else: a sandbox whose time is over is paused or ended
/// whatever connections there are, since whoever opens them need not be its tenant.
#[derive(Debug)]
pub struct PortHold {
    call: Call,
}

impl Service {
    /// Connects to a port of a sandbox. One that is paused and was made to be resumed by its use is resumed.
    ///
    /// # Errors
    /// See [`ServiceError`]; [`ServiceError::PortClosed`] where nothing listens.
    pub async fn connect_port(
        &self,
        visitor: Visitor<'_>,
        sandbox: &str,
        port: u16,
    ) -> Result<PortConnection, ServiceError> {
        let (sandbox, origin) = match visitor {
            Visitor::Caller(caller) => {
                caller.require(Scope::Exec)?;
                (self.alive(caller, sandbox)?, caller.origin.clone())
            }
            Visitor::Anyone => (self.public(sandbox).ok_or(ServiceError::UnknownSandbox)?, Origin::default()),
        };
        pause::wake(&sandbox, &origin).await?;
        let call = Call::begin(self, sandbox, &origin, "connect_port", &port.to_string())?;
        let mut call = call.unremembered();
        let agent = call.sandbox().agent();
        let opening = agent.connect_port(port, WITHIN);
        let opened = match call.wait(opening).await {
            Err(ServiceError::Agent(error)) if error.refusal() == Some(Refusal::NotFound) => {
                Err(ServiceError::PortClosed { port })
            }
            opened => opened,
        };
        match opened {
            Ok(stream) => {
                let sandbox = Arc::clone(call.sandbox());
                call.detach(&mut sandbox.lock().lifetime, true);
                sandbox.wake();
                let mask = sandbox.facts.host_mask.as_deref();
                let host = mask.map(|mask| mask.replace("${PORT}", &port.to_string()));
                Ok(PortConnection { stream, hold: PortHold { call }, host })
            }
            Err(error) => {
                let failed: Result<PortConnection, _> = Err(error);
                call.done(&failed);
                failed
            }
        }
    }

    /// Whether anybody who knows its name may connect to the ports of a sandbox; `None` where there is no such one.
    #[must_use]
    pub fn is_public(&self, sandbox: &str) -> Option<bool> {
        let id: SandboxId = sandbox.parse().ok()?;
        self.one(&id).map(|sandbox| sandbox.facts.public_ports)
    }

    fn public(&self, sandbox: &str) -> Option<Arc<Sandbox>> {
        let id: SandboxId = sandbox.parse().ok()?;
        self.one(&id).filter(|sandbox| sandbox.facts.public_ports)
    }
}

impl PortHold {
    /// Waits until the connection leads nowhere: the sandbox is paused, or has ended.
    pub async fn over(&self) {
        let mut frozen = self.call.sandbox().frozen();
        tokio::select! {
            // The sender lives in the sandbox.
            _ = frozen.wait_for(Option::is_some) => {}
            _ = self.call.sandbox().ended() => {}
        }
    }
}
