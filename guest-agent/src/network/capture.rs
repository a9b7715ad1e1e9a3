//! Takes the connections that the kernel redirects here, asks the host for each, and moves the bytes.
//!
//! ```text
//!   accepted ──► where to, and whose? ──► stream to the host ──► accepted ──► bytes both ways
//!                                                               └ denied ──► the host's reply, written down, the end
//! ```
//!
//! Questions for names are answered here, whomever they are for: to the host they would be bytes like any others.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use rekindle_protocol::frame;
use rekindle_protocol::wire::{self, egress_request, egress_verdict::Verdict};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::denials::Denials;
use super::relay::{relay, reset};
use super::{Network, attribution, resolver};
use crate::agent::Agent;

/// Connections at once. Further ones wait in the kernel for their turn.
pub(super) const MAX_CONNECTIONS: usize = 128;
/// How long the host may take to decide: it waits for the client's first words, looks up and dials.
const VERDICT: Duration = Duration::from_secs(60);
/// How long a client that was denied may go on talking before its connection is cut.
const FAREWELL: Duration = Duration::from_secs(1);
/// A pause before the next try when a connection cannot be taken, so that a fault does not become a busy loop.
const PAUSE: Duration = Duration::from_millis(100);

/// What captured connections share.
pub(super) struct Capture {
    pub(super) agent: Arc<Agent>,
    /// Where programs can read what was denied.
    pub(super) denials: Option<Denials>,
    pub(super) places: Arc<Semaphore>,
}

/// Takes connections for as long as the agent lives.
pub(super) async fn serve(capture: Arc<Capture>, listeners: Vec<TcpListener>) {
    loop {
        let Ok(place) = Arc::clone(&capture.places).acquire_owned().await else { return };
        let accepted = poll_fn(|context| {
            let ready = listeners.iter().map(|listener| listener.poll_accept(context)).find(Poll::is_ready);
            ready.unwrap_or(Poll::Pending)
        });
        match accepted.await {
            Ok((client, from)) => {
                let capture = Arc::clone(&capture);
                tokio::spawn(async move {
                    // A connection that fails is reset: there is nobody to tell.
                    let _ = connection(&capture, client, from).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn connection(capture: &Capture, mut client: TcpStream, from: SocketAddr) -> io::Result<()> {
    let to = original_destination(&client, from)?;
    // A program that connects to this port by itself was not redirected.
    if to == client.local_addr()? {
        return reset(&client);
    }
    if to.port() == resolver::PORT {
        let answered = resolver::converse(&capture.agent.network, &mut client).await;
        return answered.inspect_err(|_| drop(reset(&client)));
    }
    let cgroup = attribution::cgroup(from, to).ok();
    let execution = cgroup.and_then(|cgroup| capture.agent.executions.in_cgroup(cgroup)).unwrap_or(0);
    let request = wire::EgressRequest {
        target: Some(target(&capture.agent.network, to.ip())),
        port: to.port().into(),
        execution,
    };
    let Ok(mut stream) = capture.agent.network.open_stream().await else { return reset(&client) };
    let _ = client.set_nodelay(true);
    frame::write(&mut stream, &request).await.map_err(io::Error::other)?;
    match relay(&mut client, stream, async |from_host| verdict(from_host).await).await {
        Ok(None) => Ok(()),
        Ok(Some(denied)) => {
            // First written down: a program that has read the refusal finds it.
            if let Some(denials) = &capture.denials {
                denials.add(&denied.record);
            }
            say_no(&mut client, &denied.reply).await
        }
        Err(error) => {
            let _ = reset(&client);
            Err(error)
        }
    }
}

/// What the host says about a connection: nothing more where there is one.
async fn verdict(from_host: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<wire::EgressDenied>> {
    let verdict = tokio::time::timeout(VERDICT, frame::read::<wire::EgressVerdict>(from_host)).await;
    let verdict = verdict.map_err(io::Error::from)?.map_err(io::Error::other)?;
    match verdict.and_then(|verdict| verdict.verdict) {
        Some(Verdict::Accepted(_)) => Ok(None),
        Some(Verdict::Denied(denied)) => Ok(Some(denied)),
        Some(Verdict::Failed(failed)) => {
            // It has no record: nobody has denied it.
            Ok(Some(wire::EgressDenied { reply: failed.reply, ..wire::EgressDenied::default() }))
        }
        None => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

/// Writes the refusal and lets the client read it: cut off at once, it might see nothing but the cut.
async fn say_no(client: &mut TcpStream, reply: &[u8]) -> io::Result<()> {
    if reply.is_empty() {
        return reset(client);
    }
    client.write_all(reply).await?;
    client.shutdown().await?;
    let mut rest = [0; 4096];
    let drained = async { while client.read(&mut rest).await.is_ok_and(|read| read > 0) {} };
    let _ = tokio::time::timeout(FAREWELL, drained).await;
    Ok(())
}

/// What a connection is for, in the words of the host: the name that was looked up, else the address.
fn target(network: &Network, to: IpAddr) -> egress_request::Target {
    match to {
        IpAddr::V4(v4) => match network.names().name(v4) {
            Some(name) => egress_request::Target::Name(name.to_owned()),
            None => egress_request::Target::Address(v4.octets().to_vec().into()),
        },
        IpAddr::V6(v6) => egress_request::Target::Address(v6.octets().to_vec().into()),
    }
}

/// Where a program connected to before the kernel redirected it.
fn original_destination(client: &TcpStream, from: SocketAddr) -> io::Result<SocketAddr> {
    if from.is_ipv4() {
        let address = getsockopt(&client.as_fd(), sockopt::OriginalDst)?;
        let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
        return Ok(SocketAddr::new(ip.into(), u16::from_be(address.sin_port)));
    }
    let address = getsockopt(&client.as_fd(), sockopt::Ip6tOriginalDst)?;
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    Ok(SocketAddr::new(ip.into(), u16::from_be(address.sin6_port)))
}
