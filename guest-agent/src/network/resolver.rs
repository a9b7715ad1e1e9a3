//! Answers questions for names, of any program and to any server: the kernel brings them all here, as datagrams, and
//! [`capture`](super::capture) the connections that programs make for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::{Network, query};

/// The port of all servers that answer such questions.
pub const PORT: u16 = 53;
/// Longer questions are cut, and then are none.
const MAX_QUESTION: usize = 1232;
/// How long a connection may take for its next question, and to be answered.
const IDLE: Duration = Duration::from_secs(10);

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

/// Answers the questions of one connection, each with its length before it, until the program has asked all. What is no
/// question, or not whole in time, ends it as a failure.
pub async fn converse(network: &Network, mut program: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut question = [0; MAX_QUESTION];
    loop {
        let turn = async {
            let mut length = [0; 2];
            if program.read(&mut length[..1]).await? == 0 {
                return Ok(false);
            }
            program.read_exact(&mut length[1..]).await?;
            let length = usize::from(u16::from_be_bytes(length));
            let question = question.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
            program.read_exact(question).await?;
            let reply = query::answer(question, |name| network.names().address(name));
            let reply = reply.ok_or(io::ErrorKind::InvalidData)?;
            // It is about as long as the question.
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            program.write_all(&[&length.to_be_bytes()[..], &reply].concat()).await?;
            Ok::<_, io::Error>(true)
        };
        if !timeout(IDLE, turn).await?? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
