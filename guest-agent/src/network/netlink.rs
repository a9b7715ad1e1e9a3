//! Sends messages to the kernel and hears what it says to each.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

const HEADER: usize = 16;
/// Larger than any answer that is asked for here.
const ANSWER: usize = 8192;

/// A conversation with one part of the kernel.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

/// One message of the kernel's: its kind and what is in it.
#[derive(Debug)]
pub struct Answer {
    /// What kind of message.
    pub kind: u16,
    /// Everything after its header.
    pub body: Vec<u8>,
}

impl Netlink {
    /// Begins one.
    ///
    /// # Errors
    /// When the kernel does not have that part.
    pub fn open(protocol: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, Some(protocol))?;
        Ok(Self { socket })
    }

    /// Sends messages of which this many ask for an acknowledgement, and waits for these.
    ///
    /// # Errors
    /// What the kernel says to the first that it refuses.
    pub fn carry_out(&self, messages: &[u8], acknowledged: usize) -> io::Result<()> {
        self.send(messages)?;
        let mut left = acknowledged;
        while left > 0 {
            for answer in self.receive()? {
                if answer.kind == libc::NLMSG_ERROR as u16 {
                    answer.check()?;
                    left = left.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    /// Sends one question and returns what comes back first.
    ///
    /// # Errors
    /// What the kernel says instead of an answer.
    pub fn ask(&self, message: &[u8]) -> io::Result<Answer> {
        self.send(message)?;
        let answer = self.receive()?.into_iter().next().ok_or(io::ErrorKind::UnexpectedEof)?;
        answer.check()?;
        Ok(answer)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        sendto(self.socket.as_raw_fd(), bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        Ok(())
    }

    fn receive(&self) -> io::Result<Vec<Answer>> {
        let mut bytes = [0; ANSWER];
        let read = recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
        let mut rest = &bytes[..read];
        let mut answers = Vec::new();
        while let Some(header) = rest.first_chunk::<HEADER>() {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let body = rest.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
            answers.push(Answer { kind: u16::from_ne_bytes([header[4], header[5]]), body: body.to_vec() });
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
        Ok(answers)
    }
}

impl Answer {
    /// Turns an error that the kernel tells into one; an acknowledgement is the error 0.
    fn check(&self) -> io::Result<()> {
        if self.kind != libc::NLMSG_ERROR as u16 {
            return Ok(());
        }
        match self.body.first_chunk::<4>().map(|code| i32::from_ne_bytes(*code)) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
