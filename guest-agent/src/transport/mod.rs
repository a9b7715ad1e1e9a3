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
                let (stream, _) = listener.accept().await?;
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

/// Tells the host that the agent listens, by connecting once: the host waits for that instead of trying.
async fn announce(port: u32) {
    if let Err(error) = VsockStream::connect(VsockAddr::new(VMADDR_CID_HOST, port)).await {
        eprintln!("rekindle-agent: nobody waits on vsock port {port}: {error}");
    }
}
