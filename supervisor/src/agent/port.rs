//! Connects to a TCP port inside the guest.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf as _;
use rekindle_protocol::wire::{ConnectRequest, request::Op, response::Reply};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client::{AgentClient, Lane};
use super::error::AgentError;
use super::operation::Raw;
use super::patience::deadline;

/// A connection to a program in the guest: its bytes as they are. Closing it ends this side's half; dropped before both
/// halves have ended, it is reset.
#[derive(Debug)]
pub struct PortStream(Raw);

impl AgentClient {
    /// Connects to what listens at a port of the guest's loopback. Waits for its turn where too many connections are
    /// open.
    ///
    /// # Errors
    /// See [`AgentError`]; where nothing listens it is refused as not found. Agents before protocol 3.7 refuse it as
    /// unknown.
    pub async fn connect_port(&self, port: u16, within: Duration) -> Result<PortStream, AgentError> {
        let request = Op::Connect(ConnectRequest { port: port.into() });
        let mut operation = self.begin("connect", Lane::Port, request, deadline(within)).await?;
        // The wait for a place is not the agent's.
        match operation.receive(Some(deadline(within))).await? {
            Reply::Done(_) => operation.into_raw().map(PortStream),
            other => Err(operation.unexpected(&other)),
        }
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Raw { stream, arrived, .. } = &mut self.0;
        if arrived.is_empty() {
            return Pin::new(stream).poll_read(cx, buffer);
        }
        let length = arrived.len().min(buffer.remaining());
        buffer.put_slice(&arrived[..length]);
        arrived.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
