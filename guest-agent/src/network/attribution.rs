//! Whose a connection is: the kernel is asked for the cgroup of the program's own socket.
//!
//! The program that made the socket counts, whoever uses it later. What an execution has left behind is nobody's.

use std::io;
use std::net::SocketAddr;

use nix::sys::socket::SockProtocol;

use super::message::Messages;
use super::netlink::Netlink;

const BY_FAMILY: u16 = 20;
/// Size of `struct inet_diag_msg`, after which attributes follow.
const FIXED: usize = 72;
const CGROUP_ID: u16 = 21;
const ANY_COOKIE: [u8; 8] = [0xff; 8];
const ALL_STATES: u32 = u32::MAX;

/// The id of the cgroup whose program connected from `from` to `to`, as it sees both.
///
/// # Errors
/// When there is no such socket, or the kernel does not tell.
pub fn cgroup(from: SocketAddr, to: SocketAddr) -> io::Result<u64> {
    let mut message = Messages::default();
    message.begin(BY_FAMILY, 0, &question(from, to));
    let answer = Netlink::open(SockProtocol::NetlinkSockDiag)?.ask(&message.into_bytes())?;
    let attributes = answer.body.get(FIXED..).ok_or(io::ErrorKind::InvalidData)?;
    find(attributes, CGROUP_ID).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// `struct inet_diag_req_v2` for exactly one socket.
fn question(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut fixed = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    fixed.extend_from_slice(&ALL_STATES.to_ne_bytes());
    fixed.extend_from_slice(&from.port().to_be_bytes());
    fixed.extend_from_slice(&to.port().to_be_bytes());
    for address in [from, to] {
        let mut bytes = [0; 16];
        match address {
            SocketAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.ip().octets()),
            SocketAddr::V6(v6) => bytes = v6.ip().octets(),
        }
        fixed.extend_from_slice(&bytes);
    }
    fixed.extend_from_slice(&0u32.to_ne_bytes());
    fixed.extend_from_slice(&ANY_COOKIE);
    fixed
}

/// The value of an attribute that is a number of eight bytes.
fn find(mut attributes: &[u8], wanted: u16) -> Option<u64> {
    while let Some(&[a, b, c, d]) = attributes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([c, d]) == wanted {
            return value.first_chunk::<8>().map(|value| u64::from_ne_bytes(*value));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}
