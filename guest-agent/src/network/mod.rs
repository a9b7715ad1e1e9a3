//! The sandbox's network as its programs see it: a device, names, and connections that all end at the agent.
//!
//! Nothing of it leaves the guest but as a stream to the host, which alone decides and dials. The kernel redirects every
//! TCP connection that is not for the guest itself to [`capture`]; questions for names are answered by [`resolver`] with
//! addresses that stand for them ([`names`]); everything else is refused at once. It is all in place before a snapshot
//! is taken, whatever a sandbox's policy will be, so a start costs nothing more. A guest whose root undoes it has no
//! network left, and no other one.
//!
//! The other way round, [`connect`] brings the host to a port that a program serves inside, over the same [`relay`].
//!
//! [`interface`] and [`rules`] tell the kernel, through [`netlink`]. Called by `main`, once, where the agent is init.

mod attribution;
mod capture;
mod denials;
mod interface;
mod message;
mod names;
mod netlink;
mod port;
mod query;
mod relay;
mod resolver;
mod rules;
mod thread;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rekindle_protocol::limits::MAX_PORT_CONNECTIONS;
use rekindle_protocol::mux::{Opener, SessionOver, Stream};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use self::names::Names;
pub use self::port::connect;
use crate::agent::Agent;

/// Where captured connections arrive. Below 1024, so that no program takes their place. Several, because a program may
/// connect to several servers from one port of its own: the kernel tells such connections apart by the ports they are
/// redirected to, and only where none is left by another port of the program's, under which nobody finds its socket.
const CAPTURE_PORTS: RangeInclusive<u16> = 1000..=1015;
/// Where questions for names arrive.
const RESOLVER_PORT: u16 = 999;
/// The loopback device is always the first.
const LOOPBACK: u32 = 1;
/// The guest's own address, of the network for benchmarks, which nobody has.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// What `/etc/resolv.conf` names. Any other address is answered as well.
const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// What the parts of it share.
#[derive(Debug)]
pub struct Network {
    names: Mutex<Names>,
    /// Opens streams to the host, while there is a session.
    session: Mutex<Option<Opener>>,
    /// Places for connections of the host to ports of the guest.
    ports: Semaphore,
    /// Where bytes of connections are moved.
    thread: OnceLock<Handle>,
}

impl Default for Network {
    fn default() -> Self {
        let ports = Semaphore::new(MAX_PORT_CONNECTIONS);
        Self { names: Mutex::default(), session: Mutex::default(), ports, thread: OnceLock::new() }
    }
}

impl Network {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event loop of connections; it is started when it is needed first, which is before a snapshot is taken.
    fn thread(&self) -> io::Result<Handle> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread.clone());
        }
        let thread = thread::start(crate::begin_thread)?;
        Ok(self.thread.get_or_init(|| thread).clone())
    }

    /// Says through whom the host is asked from now on; `None` when nobody can.
    pub fn set_session(&self, opener: Option<Opener>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = opener;
    }

    async fn open_stream(&self) -> Result<Stream, SessionOver> {
        let opener = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        opener.ok_or(SessionOver)?.open().await
    }
}

/// What is ready before there is an event loop.
pub struct Prepared {
    capture: Vec<std::net::TcpListener>,
    resolver: Vec<std::net::UdpSocket>,
    /// The guest is the agent's own.
    init: bool,
}

/// Makes device, sockets and rules; where the guest is the agent's own, names are asked for here from now on. `None`
/// where the kernel refuses: one of somebody's own may lack what it takes, and programs find no network then.
pub fn set_up(init: bool) -> Option<Prepared> {
    let prepared = prepare(init).and_then(|prepared| {
        if init {
            std::fs::write("/etc/resolv.conf", format!("nameserver {RESOLVER}\n"))?;
        }
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => Some(prepared),
        Err(error) => {
            eprintln!("rekindle-agent: no network: {error}");
            None
        }
    }
}

fn prepare(init: bool) -> io::Result<Prepared> {
    // A route leads to the device only once nothing can get there. Loopback comes up with it, which the sockets need.
    rules::set_up()?;
    interface::set_up()?;
    let (mut capture, mut resolver) = (Vec::new(), Vec::new());
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        for port in CAPTURE_PORTS {
            let listener = std::net::TcpListener::bind((address, port))?;
            listener.set_nonblocking(true)?;
            capture.push(listener);
        }
        let socket = std::net::UdpSocket::bind((address, RESOLVER_PORT))?;
        socket.set_nonblocking(true)?;
        resolver.push(socket);
    }
    // Connections of a sandbox come and go quickly, and its memory is small.
    for (key, value) in [("nf_conntrack_tcp_timeout_time_wait", "1"), ("nf_conntrack_max", "16384")] {
        let _ = std::fs::write(format!("/proc/sys/net/netfilter/{key}"), value);
    }
    Ok(Prepared { capture, resolver, init })
}

/// Begins to serve. Needs the event loop.
///
/// # Errors
/// When the event loop does not take a socket.
pub fn serve(agent: &Arc<Agent>, prepared: Prepared) -> io::Result<()> {
    let capture = Arc::new(capture::Capture {
        agent: Arc::clone(agent),
        denials: prepared.init.then(denials::Denials::default),
        places: Arc::new(Semaphore::new(capture::MAX_CONNECTIONS)),
    });
    let thread = agent.network.thread()?;
    let listeners = {
        let _of_its_event_loop = thread.enter();
        prepared.capture.into_iter().map(TcpListener::from_std).collect::<io::Result<Vec<_>>>()?
    };
    thread.spawn(capture::serve(capture, listeners));
    for socket in prepared.resolver {
        let (network, socket) = (Arc::clone(&agent.network), UdpSocket::from_std(socket)?);
        tokio::spawn(async move {
            if let Err(error) = resolver::serve(network, socket).await {
                eprintln!("rekindle-agent: names are no longer answered: {error}");
            }
        });
    }
    Ok(())
}
