//! How the agent and a parked process talk: a pipe each way.
//!
//! Not a socket: a first program writes to pipes anyway, so an emulated clone has that part of the kernel
//! translated for it once, and needs none of what a socket takes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use tokio::io::Interest;

use crate::exec::stdio::Channel;

/// How long an interpreter may take to start and import, on a slow, busy host.
const START_DEADLINE: Duration = Duration::from_secs(300);
/// How long a parked process may take to read its request.
const CLAIM_DEADLINE: Duration = Duration::from_secs(30);

/// The agent's ends. Dropping them hangs up.
#[derive(Debug)]
pub struct Line {
    requests: Channel,
    answers: Channel,
}

impl Line {
    /// A new one, and the process's ends: what it reads requests from and what it answers to.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn lay() -> io::Result<(Self, [OwnedFd; 2])> {
        let (their_requests, requests) = pipe2(OFlag::O_CLOEXEC)?;
        let (answers, their_answers) = pipe2(OFlag::O_CLOEXEC)?;
        let requests = Channel::new(requests, Interest::WRITABLE)?;
        let answers = Channel::new(answers, Interest::READABLE)?;
        Ok((Self { requests, answers }, [their_requests, their_answers]))
    }

    /// Hands over a request.
    ///
    /// # Errors
    /// When it is not taken.
    pub async fn tell(&self, request: &[u8]) -> io::Result<()> {
        // Nearly every request has room, and needs no clock.
        let rest = match self.requests.write_now(request)? {
            n if n == request.len() => return Ok(()),
            n => &request[n..],
        };
        tokio::time::timeout(CLAIM_DEADLINE, self.requests.write_all(rest)).await?
    }

    /// Reads what a process says of itself until `enough` is content.
    ///
    /// # Errors
    /// When it ends, takes too long, or says why it cannot wait: a line that begins with an exclamation mark.
    pub async fn hear(&self, enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
        let heard = async {
            let mut heard = Vec::new();
            while heard.first() == Some(&b'!') || !enough(&heard) {
                let mut piece = [0; 64];
                match self.answers.read(&mut piece).await? {
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

    /// What is heard from now on: nothing, once a program runs.
    pub fn into_verdict(self) -> Channel {
        self.answers
    }
}
