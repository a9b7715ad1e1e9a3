//! Serves the sockets of [`set_up`](super::set_up), for as long as the agent lives.

use std::io;
use std::sync::Arc;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;

use super::set_up::Sockets;
use super::{capture, denials, resolver};
use crate::agent::Agent;

/// Begins to serve. Needs the event loop.
///
/// # Errors
/// When the event loop does not take a socket.
pub fn serve(agent: &Arc<Agent>, sockets: Sockets) -> io::Result<()> {
    let capture = Arc::new(capture::Capture {
        agent: Arc::clone(agent),
        denials: sockets.init.then(denials::Denials::default),
        places: Arc::new(Semaphore::new(capture::MAX_CONNECTIONS)),
    });
    let thread = agent.network.thread()?;
    let listeners = {
        let _of_its_event_loop = thread.enter();
        sockets.capture.into_iter().map(TcpListener::from_std).collect::<io::Result<Vec<_>>>()?
    };
    thread.spawn(capture::serve(capture, listeners));
    for socket in sockets.resolver {
        let (network, socket) = (Arc::clone(&agent.network), UdpSocket::from_std(socket)?);
        tokio::spawn(async move {
            if let Err(error) = resolver::serve(network, socket).await {
                eprintln!("rekindle-agent: names are no longer answered: {error}");
            }
        });
    }
    Ok(())
}
