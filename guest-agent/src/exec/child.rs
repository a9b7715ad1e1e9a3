//! Starts a process: straight into its cgroup, as another user, with nothing of the agent's left open.
//!
//! `clone3` puts the child into its group as it starts, so there is no moment outside the limits and no costly
//! move between groups. Until `execve` it uses the agent's memory, on a stack of its own (the crate
//! `rekindle-cgroup-spawn`): nothing is copied for it, and nothing afterwards because of it. It may only make system
//! calls on memory that was laid out before.

use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::pipe2;
use rekindle_protocol::wire::ErrorCode;
use tokio::io::Interest;

use crate::exec::environment::Environment;
use crate::exec::spec::Spec;
use crate::exec::stdio::Channel;
use crate::failure::Failure;
use crate::open_files;

/// What the child stands on: its three descriptors, whether they are its terminal, and its group.
pub struct ChildSetup<'a> {
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// The descriptors are a terminal that must become the child's own.
    pub terminal: bool,
    /// The directory of the cgroup it is spawned into.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// A process limit per user, for places without a pids controller. 0 for none.
    pub processes: u64,
    /// How many files it may open.
    pub files: open_files::Programs,
    /// What connects it with the agent, which the program finds as descriptors from [`CONTROL`] on.
    pub control: &'a [BorrowedFd<'a>],
}

/// Where a program of the agent's own finds its first line to the agent: far from the descriptors it opens itself,
/// so that those have the numbers they have without it.
pub const CONTROL: RawFd = 1000;
/// The places of all its lines to the agent.
const CONTROLS: Range<RawFd> = CONTROL..CONTROL + 8;

/// A process that has been started but may still fail before its program runs.
pub struct Child {
    /// Its process id.
    pub pid: i32,
    /// A handle that never means another process.
    pub pidfd: OwnedFd,
    /// The process group of it and of what it starts in the usual way.
    pub process_group: i32,
    /// Says nothing once the program runs, and why not if it does not.
    pub verdict: Channel,
}

/// How a started process came to run its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramStart {
    /// As it was asked to.
    AsAsked,
    /// A warm interpreter has given way to one that was started for the program.
    Instead,
}

/// The steps a child can fail at, in order.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Step {
    Session,
    Stdio,
    Limits,
    User,
    Directory,
    Program,
}

/// Bytes of a verdict: the step and the error number.
const VERDICT: usize = 5;

/// Everything the child needs, laid out before it exists.
struct ChildPlan {
    programs: Vec<CString>,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    cwd: CString,
    groups: Vec<libc::gid_t>,
    uid: libc::uid_t,
    gid: libc::gid_t,
    stdio: [RawFd; 3],
    /// The process group to join; none for a session of its own, which a terminal needs.
    process_group: Option<libc::pid_t>,
    processes: u64,
    files: libc::rlimit,
    control: Vec<OwnedFd>,
    verdict: RawFd,
}

/// Starts the process of `spec`. To be called while no child is collected, as in [`Reaper::adopt`].
///
/// With a terminal it leads a session. Without one it leads nothing, as a program that a shell runs: one that leads its
/// process group cannot begin a session, and `setsid(1)` would go on in a child and return at once. Each still has a
/// process group of its own, so that what it sends to its group reaches nobody else.
///
/// [`Reaper::adopt`]: crate::reaper::Reaper::adopt
///
/// # Errors
/// When no process could be made at all.
pub fn start(spec: &Spec, setup: &ChildSetup<'_>) -> io::Result<Child> {
    let (verdict, report) = pipe2(OFlag::O_CLOEXEC)?;
    let verdict = Channel::new(verdict, Interest::READABLE)?;
    let report = outside_controls(report)?;
    let environment = spec.environment.to_c_strings();
    let terminated = |strings: &[CString]| {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
    };
    let own = |fd: &BorrowedFd<'_>| outside_controls(fd.try_clone_to_owned()?);
    let control = setup.control.iter().map(own).collect::<io::Result<_>>()?;
    let process_group = if setup.terminal { None } else { Some(new_process_group()?) };
    let plan = ChildPlan {
        programs: candidates(&spec.argv[0], &spec.environment),
        argv: terminated(&spec.argv),
        envp: terminated(&environment),
        cwd: CString::new(spec.cwd.as_os_str().as_bytes())?,
        groups: spec.account.groups.clone(),
        uid: spec.account.uid,
        gid: spec.account.gid,
        stdio: setup.stdio.map(|fd| fd.as_raw_fd()),
        process_group,
        processes: setup.processes,
        files: libc::rlimit { rlim_cur: setup.files.soft, rlim_max: setup.files.hard },
        control,
        verdict: report.as_raw_fd(),
    };
    // SAFETY: `become_program` makes system calls only, on memory that `plan` holds, and never returns.
    // JUSTIFICATION: starting inside a cgroup, and without a copy of the agent, is possible in no safe way.
    let (pid, pidfd) = unsafe { rekindle_cgroup_spawn::spawn(setup.cgroup, || become_program(&plan)) }?;
    Ok(Child { pid, pidfd, process_group: process_group.unwrap_or(pid), verdict })
}

/// A process group whose leader has ended already. It exists until that leader is collected, or as long as others are
/// in it.
fn new_process_group() -> io::Result<libc::pid_t> {
    // SAFETY: both are system calls on plain numbers, and the second never returns.
    // JUSTIFICATION: a group is made by the process that leads it, and by nobody else for it.
    let lead = || unsafe {
        libc::setpgid(0, 0);
        libc::_exit(0)
    };
    // SAFETY: see above.
    // JUSTIFICATION: as for every process that is started here.
    unsafe { rekindle_cgroup_spawn::spawn(None, lead) }.map(|(pid, _)| pid)
}

/// The descriptor, under another number if it has one that a control is to take.
fn outside_controls(fd: OwnedFd) -> io::Result<OwnedFd> {
    if !CONTROLS.contains(&fd.as_raw_fd()) {
        return Ok(fd);
    }
    let moved = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(CONTROLS.end))?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    // JUSTIFICATION: it arrives as a number.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

impl Child {
    /// Waits until the program runs.
    ///
    /// # Errors
    /// When it does not: the child has ended then.
    pub async fn running(&self, spec: &Spec) -> Result<ProgramStart, Failure> {
        let mut verdict = [0; VERDICT];
        // So few bytes are written and read whole.
        let n = self.verdict.read(&mut verdict).await.map_err(|error| Failure::internal("start", &error))?;
        if n < VERDICT {
            return Ok(if n == 0 { ProgramStart::AsAsked } else { ProgramStart::Instead });
        }
        let [step, errno @ ..] = verdict;
        let errno = i32::from_ne_bytes(errno);
        let error = io::Error::from_raw_os_error(errno);
        let program = spec.argv[0].to_string_lossy();
        Err(if step == Step::Directory as u8 {
            Failure::system(&format!("working directory {}", spec.cwd.display()), &error)
        } else if step == Step::Program as u8 {
            match errno {
                libc::ENOENT => {
                    Failure::new(ErrorCode::NotFound, format!("there is no program {program:?} here"))
                }
                libc::EACCES => {
                    Failure::new(ErrorCode::PermissionDenied, format!("{program:?} may not be executed"))
                }
                libc::E2BIG => Failure::new(ErrorCode::TooLarge, "arguments and environment are too large"),
                _ => Failure::new(ErrorCode::SpawnFailed, format!("{program}: {error}")),
            }
        } else {
            Failure::new(ErrorCode::SpawnFailed, format!("the process could not be set up: {error}"))
        })
    }
}

/// Where `program` may be: itself when it names a place, otherwise in every directory of PATH.
fn candidates(program: &CString, environment: &Environment) -> Vec<CString> {
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return vec![program.clone()];
    }
    let path = environment.get("PATH").unwrap_or_default();
    path.split(|byte| *byte == b':')
        .map(|dir| if dir.is_empty() { b"." } else { dir })
        .filter_map(|dir| CString::new([dir, b"/", name].concat()).ok())
        .collect()
}

/// The child's whole life before its program. Allocates nothing, takes no lock, never returns.
fn become_program(plan: &ChildPlan) -> Infallible {
    let step = match set_up(plan) {
        Ok(()) => Step::Program,
        Err(step) => step,
    };
    let mut errno = nix::errno::Errno::last_raw();
    if matches!(step, Step::Program) {
        errno = run_program(plan);
    }
    let mut verdict = [step as u8; VERDICT];
    verdict[1..].copy_from_slice(&errno.to_ne_bytes());
    // SAFETY: the buffer is live; the descriptor is this process's own copy. `_exit` runs no destructors.
    // JUSTIFICATION: nothing but plain system calls is allowed here.
    unsafe {
        libc::write(plan.verdict, verdict.as_ptr().cast(), VERDICT);
        libc::_exit(127)
    }
}

fn set_up(plan: &ChildPlan) -> Result<(), Step> {
    let done = |result: libc::c_int, step| if result < 0 { Err(step) } else { Ok(()) };
    // SAFETY: every call below takes plain numbers or pointers to memory in `plan`, or to locals that
    // outlive it, and is on the list of what may be called between fork and exec.
    // JUSTIFICATION: see the head of this file.
    unsafe {
        let placed = plan.process_group.map_or_else(|| libc::setsid(), |group| libc::setpgid(0, group));
        done(placed, Step::Session)?;
        for (target, source) in plan.stdio.iter().enumerate() {
            done(libc::dup2(*source, target as libc::c_int), Step::Stdio)?;
        }
        if plan.process_group.is_none() {
            done(libc::ioctl(0, libc::TIOCSCTTY, 0), Step::Stdio)?;
        }
        // What the agent, or whoever started it, ignores or blocks, programs do not. Handlers go first: one that ran
        // now would run in the agent's memory.
        for signal in 1..=64 {
            // Refused for the few whose effect cannot be changed.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::umask(0o022);
        let nothing = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
        done(libc::setrlimit(libc::RLIMIT_CORE, &nothing), Step::Limits)?;
        if plan.processes > 0 {
            let most = libc::rlimit { rlim_cur: plan.processes, rlim_max: plan.processes };
            done(libc::setrlimit(libc::RLIMIT_NPROC, &most), Step::Limits)?;
        }
        // As bare system calls: the C library's would wait for the agent's other threads to change with them.
        let called = |result: libc::c_long, step| if result < 0 { Err(step) } else { Ok(()) };
        let (uid, gid, groups) = (plan.uid, plan.gid, &plan.groups);
        called(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), Step::User)?;
        called(libc::syscall(libc::SYS_setresgid, gid, gid, gid), Step::User)?;
        called(libc::syscall(libc::SYS_setresuid, uid, uid, uid), Step::User)?;
        // As the user: it must be able to enter.
        done(libc::chdir(plan.cwd.as_ptr()), Step::Directory)?;
        libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int);
        for (control, place) in plan.control.iter().zip(CONTROLS) {
            // Whatever the agent has at this place, the child needs it no more.
            done(libc::dup2(control.as_raw_fd(), place), Step::Stdio)?;
            done(libc::fcntl(place, libc::F_SETFD, 0), Step::Stdio)?;
        }
        // Last: the places above may be beyond it.
        done(libc::setrlimit(libc::RLIMIT_NOFILE, &plan.files), Step::Limits)?;
    }
    Ok(())
}

/// Tries every candidate; returns only the error that says most.
fn run_program(plan: &ChildPlan) -> libc::c_int {
    let mut worst = libc::ENOENT;
    for program in &plan.programs {
        // SAFETY: both vectors are null-terminated and point to strings that live as long as this process.
        // JUSTIFICATION: see the head of this file.
        unsafe { libc::execve(program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr()) };
        match nix::errno::Errno::last_raw() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => worst = libc::EACCES,
            errno => return errno,
        }
    }
    worst
}
