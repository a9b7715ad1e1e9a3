//! `cargo xtask lab`: a machine with a working `/dev/kvm` on one that has none.
//!
//! QEMU's emulator offers AMD's virtualisation extensions to its guest, so a Debian booted under it runs
//! real Firecracker under its jailer. The production engine is tested there on any machine.
//!
//! ```text
//! image.rs ──▶ machine.rs (boot, stop) ──▶ channel.rs (one command, its output, its exit code)
//!                                              ▲
//! up, run, down ───────────────────────────────┘◀── rig.rs ◀── suite.rs (the Firecracker tests)
//! ```

mod bench;
mod channel;
mod groups;
mod image;
mod machine;
mod package;
mod rig;
mod stage;
mod suite;

use std::io::{stderr, stdout};
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::setup;
use machine::{Lab, Life};

pub use bench::run as bench;
pub use package::run as package;
pub use suite::{EVERYTHING, MODULE, Place, everything, place, run as test};

/// What to do with the lab.
#[derive(clap::Subcommand)]
pub enum Args {
    /// Boot the lab and leave it running
    Up,
    /// Run a shell command in the lab, which is booted if it is not up
    Run {
        /// The command, given to bash in the lab; /share is the lab's share directory
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Stop the lab
    Down,
    /// Run the Firecracker tests in the lab, or directly where this machine's KVM is usable
    Test {
        /// Arguments for the test programs, such as part of a test's name
        #[arg(last = true)]
        filter: Vec<String>,
    },
}

/// Runs one verb; the code is that of the command which ran in the lab.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !matches!(args, Args::Down) {
        setup::packages()?;
    }
    let cache = Cache::open()?;
    match args {
        Args::Up => {
            let lab = Lab::join(&cache, Life::UntilStopped)?;
            println!("the lab is up; its /share is {}", lab.share().display());
            Ok(ExitCode::SUCCESS)
        }
        Args::Run { command } => {
            let lab = Lab::join(&cache, Life::UntilStopped)?;
            let code = lab.run(&command.join(" "), &mut stdout(), &mut stderr())?;
            Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
        }
        Args::Down => {
            println!("{}", if Lab::stop(&cache)? { "the lab is down" } else { "no lab was up" });
            Ok(ExitCode::SUCCESS)
        }
        Args::Test { filter } => {
            if let Place::Nowhere { reason } = place(&cache) {
                println!("skipped: {reason}");
                return Ok(ExitCode::SUCCESS);
            }
            let report = suite::run(&cache, filter, &mut |line| println!("{line}"))?;
            for line in report.engines.lines() {
                println!("ran: {}", line.replace('\t', " on "));
            }
            for line in report.skips.lines() {
                println!("skipped: {}", line.replace('\t', ": "));
            }
            for line in &report.breaks {
                println!("broken: {line}");
            }
            if !report.passed {
                bail!("tests failed");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
