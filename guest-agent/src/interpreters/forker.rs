//! The Python process that standby copies are forked from: `rekindle_warm/forker.py` in the image.

use std::ffi::CString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use nix::unistd::{Pid, getpgid};
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::exec::child::CONTROL;
use crate::interpreters::standby::{Link, Standby, spawn};
use crate::reaper::Exit;

/// It. Dropping it hangs up, which ends it.
#[derive(Debug)]
pub struct Forker {
    control: OwnedFd,
    _exit: oneshot::Receiver<Exit>,
}

impl Forker {
    /// Starts it; it forks once it has imported `modules`, whose names have been checked.
    ///
    /// # Errors
    /// When no process could be made, or there is no Python.
    pub async fn start(agent: &Agent, modules: &[String]) -> io::Result<Self> {
        let source = program(&agent.config.programs, modules);
        let argv = [c"python3".to_owned(), c"-c".to_owned(), CString::new(source)?];
        let (control, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        let (_, exit) = spawn(agent, argv.into(), &[], &[theirs.as_fd()]).await?;
        Ok(Self { control, _exit: exit })
    }

    /// Has it fork one copy.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn fork(&self, agent: &Agent) -> io::Result<Standby> {
        let (link, theirs) = Link::open()?;
        let descriptors = theirs.each_ref().map(AsRawFd::as_raw_fd);
        let message = [ControlMessage::ScmRights(&descriptors)];
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg::<()>(self.control.as_raw_fd(), &[IoSlice::new(b"f")], &message, flags, None)?;
        drop(theirs);
        // Its process id from the forker, and a dot from the copy itself, in whatever order.
        let heard = link.hear(|heard| heard.contains(&b'\n') && heard.contains(&b'.')).await?;
        let digits: String =
            heard.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| *byte as char).collect();
        let pid = digits.parse().map_err(|_| io::Error::other("the forker named no process"))?;
        let (pidfd, exit) = agent.reaper.adopt_orphan(pid)?;
        let process_group = getpgid(Some(Pid::from_raw(pid)))?.as_raw();
        Ok(Standby { pid, pidfd, process_group, exit, link, prepared: None })
    }
}

/// What the forker runs. The names are identifiers and the path is the image's, so nothing needs quoting.
fn program(programs: &Path, modules: &[String]) -> String {
    let modules: Vec<String> = modules.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '{}/python'); from rekindle_warm import forker; forker.serve({CONTROL}, [{}])",
        programs.display(),
        modules.join(", ")
    )
}
