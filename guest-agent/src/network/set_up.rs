//! Device, rules and sockets, before the event loop and before a snapshot. Called by `main`, once.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use super::{CAPTURE_PORTS, RESOLVER, RESOLVER_PORT, interface, rules};

/// Sockets that programs reach already and nobody serves yet: there is no event loop.
pub struct Sockets {
    pub(super) capture: Vec<TcpListener>,
    pub(super) resolver: Vec<UdpSocket>,
    /// The guest is the agent's own.
    pub(super) init: bool,
}

/// Makes device, sockets and rules; where the guest is the agent's own, names are asked for here from now on. `None`
/// where the kernel refuses: one of somebody's own may lack what it takes, and programs find no network then.
pub fn set_up(init: bool) -> Option<Sockets> {
    let made = make(init).and_then(|sockets| {
        if init {
            fs::write("/etc/resolv.conf", format!("nameserver {RESOLVER}\n"))?;
        }
        Ok(sockets)
    });
    match made {
        Ok(sockets) => Some(sockets),
        Err(error) => {
            eprintln!("rekindle-agent: no network: {error}");
            None
        }
    }
}

fn make(init: bool) -> io::Result<Sockets> {
    // A route leads to the device only once nothing can get there. Loopback comes up with it, which the sockets need.
    rules::set_up()?;
    interface::set_up()?;
    let (mut capture, mut resolver) = (Vec::new(), Vec::new());
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        for port in CAPTURE_PORTS {
            let listener = TcpListener::bind((address, port))?;
            listener.set_nonblocking(true)?;
            capture.push(listener);
        }
        let socket = UdpSocket::bind((address, RESOLVER_PORT))?;
        socket.set_nonblocking(true)?;
        resolver.push(socket);
    }
    // Connections of a sandbox come and go quickly, and its memory is small.
    for (key, value) in [("nf_conntrack_tcp_timeout_time_wait", "1"), ("nf_conntrack_max", "16384")] {
        let _ = fs::write(format!("/proc/sys/net/netfilter/{key}"), value);
    }
    Ok(Sockets { capture, resolver, init })
}
