//! A process that waits for an execution, and the socket it waits at.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use tokio::io::Interest;
use tokio::sync::oneshot;

use crate::exec::child::Child;
use crate::exec::stdio::{AgentEnds, Channel};
use crate::reaper::Exit;
use crate::warm::request::Footing;

/// How long an interpreter may take to start and import, on a slow, busy host.
pub const START_DEADLINE: Duration = Duration::from_secs(300);
/// How long a parked process may take to read its request.
const CLAIM_DEADLINE: Duration = Duration::from_secs(30);

/// One of them. Dropping it hangs up, which ends it.
#[derive(Debug)]
pub struct Parked {
    /// Its process id.
    pub pid: i32,
    /// A handle that never means another process.
    pub pidfd: OwnedFd,
    /// Tells of its end.
    pub exit: oneshot::Receiver<Exit>,
    /// The agent's end of its socket.
    pub control: Channel,
    /// What it has been prepared for.
    pub prepared: Option<Prepared>,
}

/// What a parked process is already.
#[derive(Debug)]
pub struct Prepared {
    /// The agent's ends of what it writes to.
    pub ends: AgentEnds,
    /// Where and as whom it is to run.
    pub footing: Footing,
}

impl Parked {
    /// Whether it still waits, as far as the agent knows.
    pub fn waits(&mut self) -> bool {
        matches!(self.exit.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    /// Hands it a request.
    ///
    /// # Errors
    /// When it does not take it.
    pub async fn tell(&self, request: &[u8]) -> io::Result<()> {
        tokio::time::timeout(CLAIM_DEADLINE, self.control.write_all(request)).await?
    }

    /// Makes it the execution's process.
    pub fn into_child(self) -> (Child, oneshot::Receiver<Exit>) {
        (Child { pid: self.pid, pidfd: self.pidfd, verdict: self.control }, self.exit)
    }
}

/// Two connected sockets: the agent's, and one for a process.
///
/// # Errors
/// When there are no descriptors left.
pub fn pair() -> io::Result<(Channel, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
    Ok((Channel::new(ours, Interest::READABLE | Interest::WRITABLE)?, theirs))
}

/// Reads what a process says of itself until `enough` is content.
///
/// # Errors
/// When it ends, takes too long, or says why it cannot wait: a line that begins with an exclamation mark.
pub async fn hear(control: &Channel, enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let heard = async {
        let mut heard = Vec::new();
        while heard.first() == Some(&b'!') || !enough(&heard) {
            let mut piece = [0; 64];
            match control.read(&mut piece).await? {
                0 if heard.first() == Some(&b'!') => {
                    let reason = String::from_utf8_lossy(&heard[1..]);
                    return Err(io::Error::other(reason.trim_end().to_owned()));
                }
                0 => return Err(io::Error::other("it ended")),
                n => heard.extend_from_slice(&piece[..n]),
            }
        }
        Ok(heard)
    };
    tokio::time::timeout(START_DEADLINE, heard).await?
}
