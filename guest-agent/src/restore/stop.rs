//! Ends all programs and leaves everything on the scratch disk, so that another machine can be booted with it.
//!
//! ```text
//!   open ──► closed, room? ──► SIGTERM ─grace─► SIGKILL ──► root saved ──► disk read-only ──► done
//!    ▲                                                                        │
//!    └──────────────────────────── a step failed ─────────────────────────────┘
//! ```

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_protocol::wire::{self, ErrorCode};
use tokio::time::{sleep, timeout};

use crate::agent::Agent;
use crate::boot;
use crate::failure::Failure;
use crate::restore::scratch::{self, DISK};

/// The longest time programs may be given.
const MAX_GRACE: Duration = Duration::from_secs(60);
/// How long what was killed may take to be gone, and its results to leave the guest.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether programs have ended: nothing tells of the last one.
const LOOK: Duration = Duration::from_millis(10);
/// The kernel's process that has all of its others as children.
const KERNEL: i32 = 2;

/// Leaves everything on the disk, and the gate closed.
///
/// # Errors
/// When there is no disk or no room on it, when programs cannot be ended, or when the disk refuses: the gate is open
/// again then.
pub async fn stop(agent: &Arc<Agent>, request: &wire::StopRequest) -> Result<(), Failure> {
    let grace = Duration::from_millis(request.grace_millis.into());
    if grace > MAX_GRACE {
        return Err(Failure::invalid(format!("programs have at most {MAX_GRACE:?} to end")));
    }
    if !scratch::is_mounted() {
        return Err(Failure::invalid("there is no scratch disk to leave everything on"));
    }
    let sandbox = agent.gate.close()?;
    let left = leave(agent, grace).await;
    if left.is_err() {
        agent.gate.reopen(sandbox);
    }
    left
}

async fn leave(agent: &Arc<Agent>, grace: Duration) -> Result<(), Failure> {
    let doing = "save the root file system";
    blocking(|| boot::check_room_for_root(Path::new(DISK)))
        .await
        .map_err(|error| Failure::system(doing, &error))?;
    end_programs(agent, grace).await?;
    blocking(|| boot::save_root(Path::new(DISK))).await.map_err(|error| Failure::system(doing, &error))?;
    blocking(scratch::make_read_only).await.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => Failure::new(ErrorCode::Busy, "something goes on writing to the scratch disk"),
        _ => Failure::system("write everything to the scratch disk", &error),
    })
}

/// Ends every program, whoever started it.
async fn end_programs(agent: &Arc<Agent>, grace: Duration) -> Result<(), Failure> {
    // Or they would be started again.
    agent.interpreters.settled().await;
    agent.interpreters.want(Vec::new(), 0);
    for (signal, patience) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, GONE_WITHIN)] {
        let began = Instant::now();
        let mut told = false;
        loop {
            if !runs(agent) {
                // Their results leave the guest before it goes.
                let results = async {
                    agent.executions.tidied().await;
                    while agent.executions.count() > 0 {
                        sleep(LOOK).await;
                    }
                };
                let _ = timeout(GONE_WITHIN, results).await;
                return Ok(());
            }
            // Again and again, for those that were started meanwhile; but asked only once.
            if signal == Signal::SIGKILL || !told {
                tell(agent, signal);
                told = true;
            }
            if began.elapsed() >= patience {
                break;
            }
            sleep(LOOK).await;
        }
    }
    Err(Failure::new(ErrorCode::Busy, "programs go on running, although they were killed"))
}

/// Signals everyone. The guest's first process means all of them with it; any other only what it has started.
fn tell(agent: &Agent, signal: Signal) {
    if agent.init {
        let _ = kill(Pid::from_raw(-1), signal);
    } else {
        agent.executions.running().iter().for_each(|running| running.signal_everyone(signal as i32));
    }
}

/// Whether any program runs.
fn runs(agent: &Agent) -> bool {
    if !agent.init {
        return agent.executions.count() > 0;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().any(|entry| {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        pid.is_some_and(|pid| pid > KERNEL && is_program(&entry.path()))
    })
}

/// Whether a process is a program: neither the kernel's own nor one that has ended and is only remembered.
fn is_program(process: &Path) -> bool {
    let Ok(text) = fs::read_to_string(process.join("stat")) else { return false };
    // The name, which comes before, may hold anything.
    let Some((_, rest)) = text.rsplit_once(") ") else { return false };
    let mut fields = rest.split(' ');
    let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse::<i32>().ok()));
    !matches!(state, Some("Z" | "X")) && parent != Some(KERNEL)
}

async fn blocking(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
