//! The worker itself, as it runs in its own process until the supervisor is gone.

use std::collections::HashMap;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;

use nix::sys::prctl;
use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::stat::{Mode, umask};
use tokio::net::UnixStream;

use super::control::Control;
use super::guest::Guest;
use super::order::{Answer, GateSetup, Order};
use super::teller::Teller;
use crate::host::{core_dumps, open_files};
use crate::network::cassette::Cassettes;
use crate::network::certificates;
use crate::network::connection;
use crate::network::dial::{Dialer, SystemResolver};
use crate::network::gate::Gate;
use crate::network::gateway::{Gateway, OpenError, Purses};
use crate::network::intercept::{Interception, Trust};

/// Largest order: all services of the gateway with their certificates.
const MAX_ORDER: usize = 64 * 1024 * 1024;

/// Why the worker ends other than with the supervisor.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It was started by somebody else.
    #[error(
        "descriptor {descriptor} is no channel to a supervisor\nhint: `rekindle serve` starts this by itself"
    )]
    Channel {
        /// Which.
        descriptor: RawFd,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel says no.
    #[error("the worker cannot be shut off from other processes")]
    Guard(#[source] io::Error),
    /// The services that were handed over.
    #[error("the gateway cannot be opened in the worker")]
    Gateway(#[from] OpenError),
    /// The first order is another.
    #[error("the supervisor says something else first")]
    Order,
}

/// Serves connections until the supervisor is gone, which says what to do on this descriptor.
///
/// # Errors
/// See [`ProcessError`].
pub async fn run(descriptor: RawFd) -> Result<(), ProcessError> {
    prctl::set_name(c"rekindle-net").map_err(|error| ProcessError::Guard(error.into()))?;
    // Nobody but root may look into a process with keys in it, whoever it runs as.
    core_dumps::forbid().map_err(ProcessError::Guard)?;
    // What it records is its group's, as which the next worker comes, and nobody else's.
    umask(Mode::S_IRWXO);
    if let Err(error) = open_files::raise() {
        tracing::warn!(%error, "the worker's limit of open files could not be raised");
    }
    let channel = |source| ProcessError::Channel { descriptor, source };
    let mut control = Control::new(open(descriptor).map_err(channel)?, MAX_ORDER).with_descriptors();
    let Order::Setup { hosts, gateway, trusted } = control.receive().await.map_err(channel)? else {
        return Err(ProcessError::Order);
    };
    let dialer = Dialer::new(Arc::new(SystemResolver), hosts.into_iter().collect());
    let gateway = Gateway::receive(&gateway)?;
    control.send(&Answer::Ready, None).await.map_err(channel)?;
    let cassettes = trusted.zip(control.descriptor()).map(|(trusted, directory)| {
        let trust = Trust::in_these(&certificates::decode(&trusted));
        (Arc::new(Cassettes::opened(directory)), Arc::new(trust))
    });
    let mut desk = Desk { dialer, gateway, cassettes, gates: HashMap::new(), purses: Purses::new() };
    // The end of the channel is the supervisor's own.
    while let Ok(order) = control.receive().await {
        if let Some(answer) = desk.follow(order, &mut control)
            && control.send(&answer, None).await.is_err()
        {
            break;
        }
    }
    Ok(())
}

/// The channel to the supervisor.
fn open(descriptor: RawFd) -> io::Result<UnixStream> {
    // Whoever starts this by hand has no socket there.
    if descriptor <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the supervisor has left this descriptor open for us, and nothing else in this process knows its number.
    // JUSTIFICATION: a number is all that an argument can carry.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    getsockopt(&socket, sockopt::SockType)?;
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// What the worker knows.
struct Desk {
    dialer: Dialer,
    gateway: Gateway,
    cassettes: Option<(Arc<Cassettes>, Arc<Trust>)>,
    gates: HashMap<u64, Gate>,
    purses: Purses,
}

impl Desk {
    fn follow(&mut self, order: Order, control: &mut Control) -> Option<Answer> {
        match order {
            Order::Setup { .. } => {}
            Order::Secrets { secrets } => self.gateway.set_secrets(&secrets),
            Order::Gate { gate, setup } => {
                let GateSetup { policy, spending, grants, authority } = *setup;
                let grants = grants.map(|setup| self.gateway.granted(&setup, &mut self.purses));
                // Without one, what is to be read is denied.
                let interception = authority.zip(self.cassettes.clone());
                let interception =
                    interception.and_then(|(setup, cassettes)| Interception::receive(&setup, cassettes).ok());
                let new = Gate::new(Arc::new(policy), self.dialer.clone(), None).with_grants(grants);
                self.gates.insert(gate, new.with_interception(interception).resume(spending));
            }
            Order::Policy { gate, policy, number } => {
                if let Some(gate) = self.gates.get(&gate) {
                    gate.set_policy(Arc::new(policy));
                }
                return Some(Answer::Enforced { number });
            }
            Order::Stream { gate } => {
                // What cannot be served is closed, and so reset.
                let socket = control.descriptor().map(std::os::unix::net::UnixStream::from);
                let socket = socket.and_then(|socket| UnixStream::from_std(socket).ok());
                if let (Some(gate), Some(socket)) = (self.gates.get(&gate), socket) {
                    let teller = Arc::new(Teller::new(socket));
                    let gate = gate.telling(Arc::clone(&teller));
                    // From here on, and not from when its task begins: the order to cut it may come before that.
                    if let Some(cut) = gate.until_paused() {
                        tokio::spawn(serve(gate, teller, cut));
                    }
                }
            }
            Order::Cut { gate } => {
                if let Some(gate) = self.gates.get(&gate) {
                    gate.cut();
                }
            }
            Order::Forget { gate } => {
                if let Some(gate) = self.gates.remove(&gate) {
                    gate.cut();
                }
            }
        }
        None
    }
}

async fn serve(gate: Gate, teller: Arc<Teller>, cut: impl Future<Output = ()>) {
    tokio::select! {
        () = connection::serve(Guest::new(Arc::clone(&teller)), &gate) => {}
        // What it waits for may be a server that says nothing or takes nothing.
        () = cut => {}
    }
    teller.finish().await;
}
