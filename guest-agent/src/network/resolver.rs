//! Answers questions for names, of any program and to any server: the kernel brings them all here.

use std::io;
use std::sync::Arc;

use tokio::net::UdpSocket;

use super::{Network, query};

/// Longer questions are cut, and then are none.
const MAX_QUESTION: usize = 1232;

/// Answers for as long as the agent lives.
pub async fn serve(network: Arc<Network>, socket: UdpSocket) -> io::Result<()> {
    let mut question = [0; MAX_QUESTION];
    loop {
        let (read, from) = match socket.recv_from(&mut question).await {
            Ok(received) => received,
            // Whoever asked before has gone: the kernel tells it at the next call.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let reply = query::answer(&question[..read], |name| network.names().address(name));
        if let Some(reply) = reply {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}
