//! The descriptors between the agent and a program: pipes, or a terminal.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::unistd::pipe2;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::exec::spec::{Input, Spec};
use crate::watched::watch;

/// The agent's ends. With a terminal there is one for both directions, and no separate standard error.
#[derive(Debug)]
pub struct AgentEnds {
    /// Writes to standard input.
    pub input: Option<Channel>,
    /// Reads standard output, or the terminal.
    pub output: Channel,
    /// Reads standard error.
    pub error: Option<Channel>,
    /// The terminal, for changing its size.
    pub terminal: Option<OwnedFd>,
}

/// The program's ends: standard input, output and error.
pub type ProgramEnds = [OwnedFd; 3];

/// Makes what an execution needs.
///
/// # Errors
/// When there are no descriptors or no terminals left.
pub fn open(spec: &Spec) -> io::Result<(AgentEnds, ProgramEnds)> {
    match spec.terminal {
        Some(size) => terminal(size, spec.account.uid),
        None => pipes(spec.input != Input::Nothing),
    }
}

/// Makes pipes; without input the program reads `/dev/null`.
///
/// # Errors
/// When there are no descriptors left.
pub fn pipes(input: bool) -> io::Result<(AgentEnds, ProgramEnds)> {
    let (output, output_end) = pipe2(OFlag::O_CLOEXEC)?;
    let (error, error_end) = pipe2(OFlag::O_CLOEXEC)?;
    let (input, input_end) = if input {
        let (input, input_end) = self::input()?;
        (Some(input), input_end)
    } else {
        (None, File::open("/dev/null")?.into())
    };
    let agent = AgentEnds {
        input,
        output: Channel::new(output, Interest::READABLE)?,
        error: Some(Channel::new(error, Interest::READABLE)?),
        terminal: None,
    };
    Ok((agent, [input_end, output_end, error_end]))
}

/// Makes a pipe for standard input: the agent's end, and the program's.
///
/// # Errors
/// When there are no descriptors left.
pub fn input() -> io::Result<(Channel, OwnedFd)> {
    let (program, agent) = pipe2(OFlag::O_CLOEXEC)?;
    Ok((Channel::new(agent, Interest::WRITABLE)?, program))
}

/// Makes a terminal of this size, owned by nobody but whoever it is handed to.
///
/// # Errors
/// When there are no terminals left.
fn terminal(size: Winsize, uid: u32) -> io::Result<(AgentEnds, ProgramEnds)> {
    let pty = openpty(&size, None)?;
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    }
    std::os::unix::fs::fchown(&pty.slave, Some(uid), None)?;
    let agent = AgentEnds {
        input: Some(Channel::new(pty.master.try_clone()?, Interest::WRITABLE)?),
        output: Channel::new(pty.master.try_clone()?, Interest::READABLE)?,
        error: None,
        terminal: Some(pty.master),
    };
    let program = [pty.slave.try_clone()?, pty.slave.try_clone()?, pty.slave];
    Ok((agent, program))
}

/// One end of a pipe, terminal or socket, without blocking.
#[derive(Debug)]
pub struct Channel {
    fd: AsyncFd<OwnedFd>,
}

impl Channel {
    /// Takes a descriptor for reading or for writing.
    ///
    /// # Errors
    /// When the descriptor cannot be watched.
    pub fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
        fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self { fd: watch(fd, interest)? })
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// When the descriptor fails.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fd.async_io(Interest::READABLE, |fd| Ok(nix::unistd::read(fd, buffer)?)).await;
        end_of_terminal(read)
    }

    /// Reads what is there now; `None` when nothing is.
    ///
    /// # Errors
    /// When the descriptor fails.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::unistd::read(self.fd.get_ref(), buffer) {
            Err(nix::errno::Errno::EAGAIN) => Ok(None),
            other => end_of_terminal(other.map_err(Into::into)).map(Some),
        }
    }

    /// Writes what there is room for now, which may be nothing.
    ///
    /// # Errors
    /// When the program has closed its end.
    pub fn write_now(&self, data: &[u8]) -> io::Result<usize> {
        match nix::unistd::write(self.fd.get_ref(), data) {
            Err(nix::errno::Errno::EAGAIN) => Ok(0),
            other => Ok(other?),
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When the program has closed its end.
    pub async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let n = self.fd.async_io(Interest::WRITABLE, |fd| Ok(nix::unistd::write(fd, data)?)).await?;
            data = &data[n..];
        }
        Ok(())
    }
}

/// A terminal nobody holds any more fails with EIO where a pipe would end.
fn end_of_terminal(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
        other => other,
    }
}
