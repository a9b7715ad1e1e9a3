//! A process that waits for an execution, how the agent talks to it, and how a Node becomes one.
//!
//! They talk through a pipe each way. Not a socket: a first program writes to pipes anyway, so an emulated clone has
//! that part of the kernel translated for it once, and needs none of what a socket takes.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use rekindle_protocol::wire::EnvVar;
use tokio::io::Interest;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::exec::child::{self, Child, ChildSetup};
use crate::exec::spec::Spec;
use crate::exec::stdio::{AgentEnds, Channel};
use crate::interpreters::request::RunContext;
use crate::reaper::Exit;

/// How long an interpreter may take to start and import, on a slow, busy host.
const START_DEADLINE: Duration = Duration::from_secs(300);
/// How long a parked process may take to read its request.
const CLAIM_DEADLINE: Duration = Duration::from_secs(30);

/// A process that waits for an execution. Dropping it hangs up, which ends it.
#[derive(Debug)]
pub struct Standby {
    /// Its process id.
    pub pid: i32,
    /// A handle that never means another process.
    pub pidfd: OwnedFd,
    /// Its process group.
    pub process_group: i32,
    /// Tells of its end.
    pub exit: oneshot::Receiver<Exit>,
    /// How the agent talks to it.
    pub link: Link,
    /// What it has been prepared for.
    pub prepared: Option<Preparation>,
}

/// What a standby process is already.
#[derive(Debug)]
pub struct Preparation {
    /// The agent's ends of what it writes to.
    pub ends: AgentEnds,
    /// Where and as whom it is to run.
    pub context: RunContext,
}

impl Standby {
    /// Whether it still waits, as far as the agent knows.
    pub fn waits(&mut self) -> bool {
        matches!(self.exit.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }

    /// Makes it the execution's process, which begins a session of its own where it gets a terminal.
    pub fn into_child(self, terminal: bool) -> (Child, oneshot::Receiver<Exit>) {
        let process_group = if terminal { self.pid } else { self.process_group };
        let verdict = self.link.into_verdict();
        (Child { pid: self.pid, pidfd: self.pidfd, process_group, verdict }, self.exit)
    }
}

/// The agent's ends. Dropping them hangs up.
#[derive(Debug)]
pub struct Link {
    requests: Channel,
    answers: Channel,
}

impl Link {
    /// New pipes, and the process's ends: what it reads requests from and what it answers to.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<(Self, [OwnedFd; 2])> {
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

/// Starts a Node and waits until it stands by, in `standby.cjs` of the image, before its program.
///
/// # Errors
/// When there is no Node, or it does not come so far.
pub async fn start_node(agent: &Agent) -> io::Result<Standby> {
    let script = CString::new(agent.config.programs.join("node/standby.cjs").as_os_str().as_bytes())?;
    // The program is replaced before Node looks at it.
    let argv = vec![c"node".to_owned(), c"--require".to_owned(), script, c"-e".to_owned(), c"0".to_owned()];
    let (link, theirs) = Link::open()?;
    let (child, exit) = spawn(agent, argv, &[no_io_uring()], &theirs.each_ref().map(AsFd::as_fd)).await?;
    drop(theirs);
    link.hear(|heard| heard.contains(&b'.')).await?;
    let Child { pid, pidfd, process_group, .. } = child;
    Ok(Standby { pid, pidfd, process_group, exit, link, prepared: None })
}

/// Node refuses to change its user while its event loop may use io_uring, whose requests keep the old one's
/// rights. The variable is gone from the environment when the program starts.
fn no_io_uring() -> EnvVar {
    EnvVar { name: "UV_USE_IO_URING".into(), value: "0".into() }
}

/// Starts a program of the agent's own, as root, in the group of those that wait. Its output goes nowhere.
///
/// # Errors
/// When it cannot be started.
pub async fn spawn(
    agent: &Agent,
    argv: Vec<CString>,
    env: &[EnvVar],
    control: &[BorrowedFd<'_>],
) -> io::Result<(Child, oneshot::Receiver<Exit>)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let spec = Spec::own(argv, env);
    let setup = ChildSetup {
        stdio: [null.as_fd(); 3],
        terminal: false,
        cgroup: agent.cgroups.warm(),
        processes: 0,
        files: agent.program_files,
        control,
    };
    let started = agent.reaper.adopt(|| child::start(&spec, &setup).map(|child| (child.pid, child)))?;
    started.0.running(&spec).await.map_err(|failure| io::Error::other(failure.to_string()))?;
    Ok(started)
}
