//! `rekindle-agent`: PID 1 of every sandbox. Runs programs and moves files for the supervisor outside.
//!
//! ```text
//!   boot ──► transport ──► session ──► gate ──► exec | files
//! ```
//!
//! Booted as the guest's init it reads its configuration from the kernel command line; started by hand with
//! a `transport=` word it serves the place it is in, which is how it is tested without a virtual machine.

mod agent;
mod boot;
mod cgroup;
mod config;
mod exec;
mod failure;
mod files;
mod interpreters;
mod network;
mod open_files;
mod power;
mod reaper;
mod restore;
mod session;
mod transport;
mod tuning;
mod watched;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::SigSet;

use crate::agent::Agent;
use crate::config::Config;

/// Threads for blocking file work. File operations take at most half of them, so that the writing of
/// spilled output never waits behind a slow transfer.
const BLOCKING_THREADS: usize = 2 * files::MAX_PARALLEL;
/// How long an idle one of them stays. Long, so that the snapshot holds one: starting it would come between
/// the end of their first program and its result.
const THREAD_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Bytes at the end of a heap that stay, though they are free.
const KEPT: libc::c_int = 4 << 20;
/// From this size on memory is the kernel's own affair, taken and given back each time.
const LARGE: libc::c_int = 1 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rekindle-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What every thread beside the event loop's does first.
fn begin_thread() {
    // The kernel drops a signal the first process does not want, but not if the main thread blocks it at that moment,
    // as it does while it spawns a child, and another thread does not: then the signal ends the whole agent.
    let _ = SigSet::all().thread_block();
}

/// Keeps freed memory for the next piece of a transfer. Each is 64 KiB, freed when it has been passed on, and the
/// allocator gives the end of its heap back from 128 KiB on: so the kernel would have to find and to zero the same
/// pages again and again, one or two thousand for every 16 MiB.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [(libc::M_TRIM_THRESHOLD, KEPT), (libc::M_MMAP_THRESHOLD, LARGE)] {
        // SAFETY: it takes two integers and changes nothing but what the allocator does later.
        // JUSTIFICATION: glibc's allocator has no other interface to a running program.
        unsafe { libc::mallopt(option, value) };
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--version") {
        println!("rekindle-agent {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let init = std::process::id() == 1 && !words.iter().any(|word| word.starts_with("transport="));
    let config = if init {
        boot::early().map_err(|error| format!("early boot failed: {error}"))?;
        let line =
            std::fs::read_to_string("/proc/cmdline").map_err(|error| format!("/proc/cmdline: {error}"))?;
        Config::from_kernel_command_line(&line)
    } else {
        Config::from_words(words.iter().map(String::as_str))
    }
    .map_err(|error| error.to_string())?;
    if init {
        boot::root(config.disk.as_deref()).map_err(|error| format!("the root file system: {error}"))?;
        boot::late(&config).map_err(|error| format!("boot failed: {error}"))?;
    }
    let health = config.health.or(init.then_some(interpreters::health::PORT));
    let network = if config.network.unwrap_or(init) { network::set_up(init) } else { None };

    // Programs that lead none of their own are in this session. Refused where it is one already.
    let _ = nix::unistd::setsid();
    keep_freed_memory();
    if nix::unistd::geteuid().is_root() {
        // File work assumes the user's id alone: a group left over from a login would open what is closed.
        nix::unistd::setgroups(&[]).map_err(|error| format!("groups could not be given up: {error}"))?;
    }

    let program_files = open_files::raise().map_err(|error| format!("the limit of open files: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(512 * 1024)
        .thread_keep_alive(THREAD_PATIENCE)
        .on_thread_start(begin_thread)
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let agent = Arc::new(Agent::new(config, init, program_files).map_err(|error| error.to_string())?);
        let reaper = agent.reaper.clone();
        tokio::spawn(async move { reaper.run().await });
        if let Some(sockets) = network {
            network::serve(&agent, sockets).map_err(|error| format!("the network: {error}"))?;
        }
        if let Some(port) = health {
            let failed = |error| format!("port {port}, at which programs ask for the interpreter: {error}");
            interpreters::health::serve(port).await.map_err(failed)?;
        }
        transport::serve(agent).await.map_err(|error| format!("the transport failed: {error}"))
    })
}
