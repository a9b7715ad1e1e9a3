//! The tests on Firecracker: whether they run, where, and running them.

use anyhow::Result;

use super::Args;
use super::tally::{Tally, Where};
use crate::cache::Cache;
use crate::lab;

/// What happens with the tests on Firecracker: the engine's own, and the end-to-end suite, which cargo's run
/// of the workspace has on QEMU.
pub enum Production {
    Run(Where),
    /// Nowhere, and why.
    Skip(String),
    NotAsked,
}

impl Production {
    /// Looks at what was asked for and at what this machine has.
    pub fn choose(args: &Args) -> Self {
        // With a filter a person is after one test; `cargo xtask lab test` takes filters of its own.
        let asked =
            args.filter.is_empty() || args.filter.iter().any(|word| lab::MODULE.contains(word.as_str()));
        if !asked {
            return Self::NotAsked;
        }
        if args.fast {
            return Self::Skip("--fast leaves them out".to_owned());
        }
        match Cache::open().map(|cache| lab::place(&cache)) {
            Ok(lab::Place::Here) => Self::Run(Where::Here),
            Ok(lab::Place::Lab) => Self::Run(Where::Lab),
            Ok(lab::Place::Nowhere { reason }) => Self::Skip(reason),
            Err(error) => Self::Skip(error.to_string()),
        }
    }
}

/// Runs them and counts what they print.
pub fn run(filter: &[String], place: Where, tally: &mut Tally) -> Result<()> {
    tally.at(place);
    let report = lab::test(&Cache::open()?, filter, &mut |line| {
        println!("{line}");
        tally.read(line);
    })?;
    tally.skip(&report.skips);
    tally.ran_on(&report.engines);
    for line in &report.breaks {
        println!("broken: {line}");
    }
    tally.end(report.passed);
    Ok(())
}
