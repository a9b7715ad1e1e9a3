//! Connects the host to a port that a program in the guest serves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rekindle_protocol::frame;
use rekindle_protocol::limits::PORT_DEADLINE;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::{self, ErrorCode, response::Reply};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::relay::{relay, reset};
use crate::agent::Agent;
use crate::failure::Failure;
use crate::session;

/// Carries out a connect request, and moves bytes until the connection has ended.
pub async fn connect(agent: &Arc<Agent>, request: wire::ConnectRequest, stream: Stream) {
    let thread = match agent.network.thread() {
        Ok(thread) => thread,
        Err(error) => {
            let failure = Failure::system("start a thread for connections", &error);
            return session::reply(stream, failure.into_response()).await;
        }
    };
    let agent = Arc::clone(agent);
    // It ends with its stream, as an operation does.
    let _ = thread.spawn(async move { serve(&agent, request, stream).await }).await;
}

async fn serve(agent: &Arc<Agent>, request: wire::ConnectRequest, mut stream: Stream) {
    let _under_way = agent.begin();
    let Ok(_place) = agent.network.ports.try_acquire() else {
        let busy = Failure::new(ErrorCode::Busy, "too many connections to ports are open");
        return session::reply(stream, busy.into_response()).await;
    };
    let mut socket = match dial(agent, request.port).await {
        Ok(socket) => socket,
        Err(failure) => return session::reply(stream, failure.into_response()).await,
    };
    let _ = socket.set_nodelay(true);
    let connected = session::response(Reply::Done(wire::Done {}));
    let moved = match frame::write(&mut stream, &connected).await {
        Ok(()) => relay(&mut socket, stream, async |_| Ok(None::<()>)).await,
        Err(error) => Err(io::Error::other(error)),
    };
    if moved.is_err() {
        // What was cut off must not look to the program like an end.
        let _ = reset(&socket);
    }
}

async fn dial(agent: &Agent, port: u32) -> Result<TcpStream, Failure> {
    agent.gate.pass()?;
    let port = u16::try_from(port).ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| Failure::invalid("a port is a number from 1 to 65535"))?;
    let mut refused = Failure::new(ErrorCode::NotFound, format!("nothing listens at port {port}"));
    // In the order in which programs look `localhost` up.
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        match timeout(PORT_DEADLINE, TcpStream::connect((address, port))).await {
            // The kernel may choose the very port that is asked for, and connect a socket to itself.
            Ok(Ok(socket)) if socket.local_addr().ok() == socket.peer_addr().ok() => {}
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => match error.raw_os_error() {
                // A guest need not have both.
                Some(libc::ECONNREFUSED | libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::ENETUNREACH) => {}
                _ => refused = Failure::system(&format!("connect to port {port}"), &error),
            },
            Err(_) => {
                let full = format!("the program at port {port} takes no connections");
                refused = Failure::new(ErrorCode::Busy, full);
            }
        }
    }
    Err(refused)
}
