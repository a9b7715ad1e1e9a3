//! Namespace sets: namespaces with nobody in them but a small process that leads them, made for one child.
//!
//! ```text
//! supervisor ──▶ leader: first process of the set, waits for the supervisor's end
//!      └───────▶ the program, started in the set
//! ```
//!
//! A program that changes its user, as a jailer does, loses the tie to its parent, which the kernel clears
//! then. So the leader, which never changes its own, holds the tie: when the supervisor goes, it goes, and the
//! kernel ends every process of a namespace whose first one ends.
//!
//! Each is given to one child only and is gone with it. Used by `spawn`.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::setsid;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};

use super::spawn::reap_later;
use crate::host::readable::watch_readable;

/// Does nothing until its standard input ends, which is held by the supervisor.
const LEADER: [&str; 3] = ["/bin/sh", "-c", "read -r _"];

/// Whoever waits for a set.
type Reply = Sender<io::Result<NamespaceSet>>;

/// Namespaces for one program.
#[derive(Debug)]
pub(super) struct NamespaceSet {
    leader: Option<OwnedFd>,
    processes: File,
    network: File,
    _leash: PipeWriter,
}

impl NamespaceSet {
    /// Children of this thread start in the set for as long as the answer is held.
    pub(super) fn open(&self) -> io::Result<PidNamespaceGuard> {
        let own = File::open("/proc/thread-self/ns/pid")?;
        setns(&self.processes, CloneFlags::CLONE_NEWPID)?;
        Ok(PidNamespaceGuard { own })
    }

    /// Where the program finds its network: one with nothing in it.
    pub(super) fn network(&self) -> io::Result<OwnedFd> {
        Ok(self.network.try_clone()?.into())
    }

    /// Ends the leader and whatever is still in the set, and waits until all of it is gone.
    pub(super) async fn close(mut self) {
        let Some(leader) = self.leader.take() else { return };
        // Whoever gives up half-way leaves the rest to `Drop`.
        let mut rest = Unclosed { leader: Some(leader) };
        let Some(leader) = &rest.leader else { return };
        let _ = pidfd_send_signal(leader, rustix::process::Signal::KILL);
        if let Ok(watched) = leader.try_clone().and_then(watch_readable)
            && watched.readable().await.is_ok()
        {
            let _ = waitid(WaitId::PidFd(leader.as_fd()), WaitIdOptions::EXITED);
            rest.leader = None;
        }
    }
}

impl Drop for NamespaceSet {
    fn drop(&mut self) {
        drop(Unclosed { leader: self.leader.take() });
    }
}

/// The duty to end and reap a leader.
struct Unclosed {
    leader: Option<OwnedFd>,
}

impl Drop for Unclosed {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            reap_later(leader);
        }
    }
}

/// While this is held, children of this thread start elsewhere.
pub(super) struct PidNamespaceGuard {
    own: File,
}

impl Drop for PidNamespaceGuard {
    fn drop(&mut self) {
        // It cannot fail for a thread that stayed where it was; if it did, no child could be started any more
        // once the set is closed, which shows.
        let _ = setns(&self.own, CloneFlags::CLONE_NEWPID);
    }
}

/// Makes a set that nobody else has. On one thread that lives as long as the supervisor: the kernel ties a leader to
/// the thread that started it, and children of others are not to find themselves in the network of a set.
pub(super) fn make() -> io::Result<NamespaceSet> {
    static MAKER: LazyLock<Sender<Reply>> = LazyLock::new(|| {
        let (maker, wanted) = channel::<Reply>();
        let run = move || {
            for reply in wanted {
                let _ = reply.send(make_here());
            }
        };
        thread::Builder::new()
            .name("rekindle-namespaces".into())
            .spawn(run)
            .expect("the operating system can start one thread");
        maker
    });
    let ended = || io::Error::other("the thread that makes namespaces ended");
    let (reply, made) = channel();
    MAKER.send(reply).map_err(|_| ended())?;
    made.recv().map_err(|_| ended())?
}

/// Called on the thread of [`make`] only.
fn make_here() -> io::Result<NamespaceSet> {
    // Leaves this thread in the new network, which does not matter to it.
    unshare(CloneFlags::CLONE_NEWNET)?;
    let network = File::open("/proc/thread-self/ns/net")?;
    let (waits, leash) = io::pipe()?;
    let mut command = Command::new(LEADER[0]);
    command.args(&LEADER[1..]).env_clear().current_dir("/");
    command.stdin(waits).stdout(Stdio::null()).stderr(Stdio::null());
    let tie = || -> io::Result<()> {
        setsid()?;
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        Ok(())
    };
    // SAFETY: between fork and exec only system calls run; the closure allocates nothing and takes no lock.
    // JUSTIFICATION: the tie to the supervisor can be made from nowhere else. Should the supervisor be gone
    // already, the end of the leash says so.
    unsafe { command.pre_exec(tie) };
    let child = {
        let _entered = PidNamespaceGuard { own: File::open("/proc/thread-self/ns/pid")? };
        unshare(CloneFlags::CLONE_NEWPID)?;
        command.spawn()?
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // Not reaped by anyone else, so its pid is still its own.
    let mut leader = Unclosed { leader: Some(pidfd_open(pid, PidfdFlags::empty())?) };
    let processes = File::open(format!("/proc/{}/ns/pid", child.id()))?;
    Ok(NamespaceSet { leader: leader.leader.take(), processes, network, _leash: leash })
}
