//! `eth0`: a device without a wire. It gives programs an address to have and a route to everywhere, so that they try to
//! connect at all; nothing is ever sent through it.

use std::fs;
use std::io;
use std::net::Ipv6Addr;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;

use super::message::Messages;
use super::netlink::Netlink;
use super::{ADDRESS, LOOPBACK};

const NAME: &str = "eth0";
/// What the kernel makes of its own accord.
const UNUSED: &str = "dummy0";
/// An address of our own for IPv6.
const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd72, 0x6b, 0, 0, 0, 0, 0, 1);
/// Bits of the networks of both addresses.
const PREFIX: u8 = 15;
const PREFIX_V6: u8 = 64;

const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK) as u16;
const ACK: u16 = libc::NLM_F_ACK as u16;
const INFO_KIND: u16 = 1;

/// Makes it, unless there is one, gives it addresses and routes, and brings up loopback.
///
/// # Errors
/// When the kernel refuses a step; it may know no such devices.
pub fn set_up() -> io::Result<()> {
    let netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
    if let Ok(index) = if_nametoindex(UNUSED) {
        let mut messages = Messages::default();
        messages.begin(libc::RTM_DELLINK, ACK, &link(index, 0, 0));
        netlink.carry_out(&messages.into_bytes(), 1)?;
    }
    if if_nametoindex(NAME).is_err() {
        let mut messages = Messages::default();
        messages.begin(libc::RTM_NEWLINK, CREATE, &link(0, 0, 0)).text(libc::IFLA_IFNAME, NAME).nested(
            libc::IFLA_LINKINFO,
            |info| {
                info.bytes(INFO_KIND, b"dummy");
            },
        );
        netlink.carry_out(&messages.into_bytes(), 1)?;
    }
    // Nobody is on this link: no address of its own making, no search for neighbours or routers, which would wake an
    // idle guest.
    for (key, value) in
        [("addr_gen_mode", "1"), ("accept_ra", "0"), ("router_solicitations", "0"), ("accept_dad", "0")]
    {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/{key}"), value);
    }
    let index = if_nametoindex(NAME)?;
    let up = libc::IFF_UP as u32;
    let mut messages = Messages::default();
    messages.begin(libc::RTM_NEWLINK, ACK, &link(index, up, up));
    messages
        .begin(libc::RTM_NEWADDR, CREATE, &address(libc::AF_INET, PREFIX, index))
        .bytes(libc::IFA_LOCAL, &ADDRESS.octets())
        .bytes(libc::IFA_ADDRESS, &ADDRESS.octets());
    messages
        .begin(libc::RTM_NEWADDR, CREATE, &address(libc::AF_INET6, PREFIX_V6, index))
        .bytes(libc::IFA_ADDRESS, &ADDRESS_V6.octets());
    for family in [libc::AF_INET, libc::AF_INET6] {
        messages
            .begin(libc::RTM_NEWROUTE, CREATE, &default_route(family))
            .bytes(libc::RTA_OIF, &index.to_ne_bytes());
    }
    messages.begin(libc::RTM_NEWLINK, ACK, &link(LOOPBACK, up, up));
    netlink.carry_out(&messages.into_bytes(), 6)
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..].copy_from_slice(&change.to_ne_bytes());
    fixed
}

/// `struct ifaddrmsg`: global, and taken without asking whether another has it.
fn address(family: i32, prefix: u8, index: u32) -> [u8; 8] {
    let [a, b, c, d] = index.to_ne_bytes();
    [family as u8, prefix, libc::IFA_F_NODAD as u8, 0, a, b, c, d]
}

/// `struct rtmsg`: everything, by the device alone.
fn default_route(family: i32) -> [u8; 12] {
    let mut fixed = [0; 12];
    fixed[0] = family as u8;
    fixed[4] = libc::RT_TABLE_MAIN;
    fixed[5] = libc::RTPROT_STATIC;
    fixed[6] = libc::RT_SCOPE_LINK;
    fixed[7] = libc::RTN_UNICAST;
    if family == libc::AF_INET6 {
        fixed[6] = libc::RT_SCOPE_UNIVERSE;
    }
    fixed
}
