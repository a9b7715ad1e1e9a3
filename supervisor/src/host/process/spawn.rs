//! Starts a child inside its restrictions.
//!
//! ```text
//! spawn() ──job──▶ the spawner thread ──fork──▶ child: cgroup → limits → user → tie to parent
//!    ▲                                              → guard → keep descriptors → exec
//!    └────────────── Process ◀──pidfd───────────────┘
//! ```
//!
//! The kernel ties `PR_SET_PDEATHSIG` to the *thread* that forked, so every child is forked by one
//! thread that lives as long as the supervisor: when the supervisor is killed, so are its children,
//! and not a moment earlier. Called by engines only.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{getppid, setsid};
use rustix::process::{Gid, Uid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tokio::sync::oneshot;

use super::child::Process;
use super::clone::Program;
use super::namespace;
use super::namespace_set::{self, NamespaceSet};
use super::spec::ProcessSpec;
use crate::host::oom;
use crate::host::open_files;
use crate::host::open_guard::{self, GuardError};

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The kernel refused to start or prepare the program.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The guard on opening files could not be set up.
    #[error("cannot guard what {} opens", program.display())]
    Guard {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: GuardError,
    },
}

/// Starts the program and returns once it runs (its `exec` has succeeded).
///
/// # Errors
/// When the program cannot be started with exactly the restrictions asked for; nothing is left
/// running then.
pub async fn spawn(spec: ProcessSpec) -> Result<Process, SpawnError> {
    let (reply, answer) = oneshot::channel();
    let program = spec.program.clone();
    let lost = |program| SpawnError::Start { program, source: io::Error::other("the spawner thread ended") };
    if spawner().send(Job::Spawn { spec: Box::new(spec), reply }).is_err() {
        return Err(lost(program));
    }
    match answer.await {
        Ok(Ok(started)) => started.into_process(program).await,
        Ok(Err(error)) => Err(error),
        Err(_) => Err(lost(program)),
    }
}

/// Waits, on the spawner thread, for a child nobody watches any more, so that it leaves no zombie.
pub(super) fn reap_later(pidfd: OwnedFd) {
    // Without the spawner thread the supervisor is ending, and init will do it.
    let _ = spawner().send(Job::Reap { pidfd });
}

enum Job {
    Spawn { spec: Box<ProcessSpec>, reply: oneshot::Sender<Result<Started, SpawnError>> },
    Reap { pidfd: OwnedFd },
}

/// A child that runs, not yet watched.
struct Started {
    pid: u32,
    handles: Option<(OwnedFd, OwnedFd)>,
    guard: Option<open_guard::PendingGuard>,
    /// The namespaces it is in.
    namespaces: Option<NamespaceSet>,
}

impl Drop for Started {
    fn drop(&mut self) {
        // Nobody took it over: the caller gave up while the child was being started.
        if let Some((pidfd, _)) = self.handles.take() {
            reap_later(pidfd);
        }
    }
}

impl Started {
    async fn into_process(mut self, program: PathBuf) -> Result<Process, SpawnError> {
        let guard = self.guard.take();
        let (pidfd, output) = self.handles.take().expect("taken once, here");
        let process = Process::watch(self.pid, pidfd, output, self.namespaces.take())
            .map_err(|source| SpawnError::Start { program: program.clone(), source })?;
        if let Some(guard) = guard {
            // From here the child may wait for an answer whenever it opens a file.
            if let Err(source) = guard.serve() {
                process.kill().await;
                return Err(SpawnError::Guard { program, source });
            }
        }
        Ok(process)
    }
}

fn spawner() -> &'static Sender<Job> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, jobs) = channel();
        let run = move || {
            for job in jobs {
                match job {
                    Job::Spawn { spec, reply } => {
                        let _ = reply.send(start(*spec));
                    }
                    Job::Reap { pidfd } => kill_and_reap(&pidfd),
                }
            }
        };
        thread::Builder::new()
            .name("rekindle-spawn".into())
            .spawn(run)
            .expect("the operating system can start one thread");
        sender
    })
}

fn kill_and_reap(pidfd: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
    let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
}

fn start(spec: ProcessSpec) -> Result<Started, SpawnError> {
    let ProcessSpec {
        program,
        args,
        environment,
        directory,
        inherit,
        cgroup,
        run_as,
        open_guard,
        namespaces,
    } = spec;
    let failed = |source: io::Error| SpawnError::Start { program: program.clone(), source };
    let guarded = |source: GuardError| SpawnError::Guard { program: program.clone(), source };

    let (output, output_child) =
        nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| failed(e.into()))?;
    let guard = open_guard.map(open_guard::build).transpose().map_err(guarded)?;
    let installer = guard.as_ref().map(open_guard::PreparedGuard::installer);

    let set = namespaces.is_some().then(namespace_set::make).transpose().map_err(failed)?;
    let entry = namespaces.as_ref().zip(set.as_ref());
    let entry = entry.map(|(wanted, set)| namespace::Entry::open(wanted, set)).transpose().map_err(failed)?;
    let directory = directory.as_deref().unwrap_or(Path::new("/"));
    let prepared = Program::new(&program, &args, environment, directory).map_err(failed)?;
    let null = File::open("/dev/null").map_err(failed)?;
    let parent = nix::unistd::getpid();
    let open_files = open_files::of_children();
    let keep: Vec<RawFd> = inherit.iter().map(AsRawFd::as_raw_fd).collect();
    let prepare_child = move || -> io::Result<()> {
        setsid()?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        if let Some(entry) = &entry {
            entry.enter()?;
        }
        if let Some(user) = run_as {
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            // The calls themselves: the C library's would wait for threads that are not here.
            set_thread_groups(&[])?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
        }
        // Changing the user clears the tie to the parent, so it comes after.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // In a namespace set the parent cannot be seen, and the leader of the set holds the tie.
        if entry.is_none() && getppid() != parent {
            // The supervisor died during the start: nobody hears of this.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        prctl::set_no_new_privs()?;
        if let Some(installer) = &installer {
            installer.install()?;
        }
        for fd in &keep {
            keep_across_exec(*fd)?;
        }
        // Last, because what comes before may need descriptors beside all that the supervisor has open.
        if let Some((soft, hard)) = open_files {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(())
    };
    let entered = set.as_ref().map(NamespaceSet::open).transpose().map_err(failed)?;
    let stdio = [null.as_fd(), output_child.as_fd(), output_child.as_fd()];
    let (pid, pidfd) = prepared.start(stdio, cgroup.as_ref(), prepare_child).map_err(failed)?;
    drop((entered, inherit, output_child));
    // Not before it runs its program: until then it shares this process's memory, and with it the adjustment.
    if let Err(error) = oom::expose(pid) {
        tracing::warn!(%error, "a monitor stays as protected from the out-of-memory killer as the supervisor");
    }
    let guard = match guard.map(open_guard::PreparedGuard::receive).transpose() {
        Ok(guard) => guard,
        Err(error) => {
            kill_and_reap(&pidfd);
            return Err(guarded(error));
        }
    };
    Ok(Started { pid, handles: Some((pidfd, output)), guard, namespaces: set })
}

/// Takes the close-on-exec mark off a descriptor in the child, leaving its number as it is.
fn keep_across_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: the descriptor is owned by the parent's `inherit` list, which outlives the fork.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))?;
    Ok(())
}
