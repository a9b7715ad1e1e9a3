//! How bytes reach the agent. Whatever it is, the rest of the program sees a stream.
//!
//! The guest listens, the host dials: listening survives a snapshot, connections do not.

mod descriptor;
mod serial;

use std::io;
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio_vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockAddr, VsockListener, VsockStream};

use crate::agent::Agent;
use crate::config::Transport;
use crate::session;

/// Serves until the transport is gone for good.
///
/// # Errors
/// When the transport cannot be set up or breaks.
pub async fn serve(agent: Arc<Agent>) -> io::Result<()> {
    match agent.config.transport.clone() {
        Transport::Vsock(port) => {
            let listener = VsockListener::bind(VsockAddr::new(VMADDR_CID_ANY, port))?;
            if let Some(port) = agent.config.ready {
                tokio::spawn(announce(port));
            }
            loop {
                let stream = accept_host(async || listener.accept().await).await?;
                tokio::spawn(session::serve(agent.clone(), stream));
            }
        }
        Transport::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(session::serve(agent.clone(), stream));
            }
        }
        Transport::Inherited(fd) => {
            let socket = descriptor::inherited_socket(fd)?;
            session::serve(agent, UnixStream::from_std(socket)?).await;
            Ok(())
        }
        Transport::Port(name) => serial::serve(agent, serial::find_port(&name)?).await,
        Transport::Tty(path) => serial::serve(agent, serial::open_tty(&path)?).await,
    }
}

/// The next connection that the host has dialled. Whoever has a session can do everything, and a newer one ends the
/// older: a program of this guest that finds a way to its own vsock port is hung up on.
async fn accept_host<S>(mut accept: impl AsyncFnMut() -> io::Result<(S, VsockAddr)>) -> io::Result<S> {
    loop {
        let (stream, peer) = accept().await?;
        if peer.cid() == VMADDR_CID_HOST {
            return Ok(stream);
        }
        eprintln!("rekindle-agent: a connection from vsock address {} was refused", peer.cid());
    }
}

/// Tells the host that the agent listens, by connecting once: the host waits for that instead of trying.
async fn announce(port: u32) {
    if let Err(error) = VsockStream::connect(VsockAddr::new(VMADDR_CID_HOST, port)).await {
        eprintln!("rekindle-agent: nobody waits on vsock port {port}: {error}");
    }
}

#[cfg(test)]
mod tests {
    //! Only the host is let in.

    use tokio_vsock::VMADDR_CID_LOCAL;

    use super::*;

    #[tokio::test]
    async fn only_the_host_gets_a_session() {
        let own = 3;
        let mut dialled = [own, VMADDR_CID_LOCAL, VMADDR_CID_ANY, VMADDR_CID_HOST, own].into_iter();
        let accept = async || {
            let cid = dialled.next().ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok((cid, VsockAddr::new(cid, 1024)))
        };
        assert_eq!(accept_host(accept).await.expect("somebody"), VMADDR_CID_HOST);
        assert_eq!(dialled.next(), Some(own), "nobody else was taken");
    }
}
