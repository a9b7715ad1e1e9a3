//! `cargo xtask mutants`: plants the bugs of `tests/mutants.toml`, one at a time, and sees whether a test finds each.
//!
//! ```text
//! copy of the checkout ──▶ all named tests pass ──▶ for each: plant, build, run its test, take back
//! ```
//!
//! A test that stays green with its guard taken away is no test of that guard. The checkout itself is never touched;
//! `tidy` checks that every entry still fits the code.

mod list;
mod run;
mod scratch;

use anyhow::{Context, Result, bail};

use crate::repo;
pub use list::{FILE, Mutant, load, planted};
use run::Verdict;
use scratch::Scratch;

/// Which of them.
#[derive(clap::Args)]
pub struct Args {
    /// Plant only the bug of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Show what would be planted, and plant nothing
    #[arg(long)]
    list: bool,
}

/// Plants one bug after the other; an error means that some were not found.
pub fn run(args: &Args) -> Result<()> {
    let root = repo::root();
    let mut mutants = load(&root)?;
    if let Some(unknown) = args.only.iter().find(|name| mutants.iter().all(|mutant| mutant.name != **name)) {
        bail!("there is no bug {unknown:?} in {FILE}\nhint: `cargo xtask mutants --list` shows all");
    }
    mutants.retain(|mutant| args.only.is_empty() || args.only.contains(&mutant.name));
    if args.list {
        for Mutant { name, bug, test, .. } in &mutants {
            println!("{name}: {bug}\n    found by {test}");
        }
        return Ok(());
    }
    let scratch = Scratch::copy(&root, &repo::target_dir().join("mutants"))?;
    eprintln!("mutants: the tests as they are");
    run::baseline(&scratch, &mutants)?;
    let (mut found, mut skipped, mut missed) = (0, 0, Vec::new());
    for (at, mutant) in mutants.iter().enumerate() {
        let verdict =
            run::plant(&scratch, mutant).with_context(|| format!("cannot plant {}", mutant.name))?;
        println!("{:>3}/{} {}: {verdict}", at + 1, mutants.len(), mutant.name);
        match verdict {
            Verdict::Found => found += 1,
            Verdict::Skipped => skipped += 1,
            Verdict::Survived | Verdict::Hung | Verdict::NoBuild(_) => missed.push(mutant.name.as_str()),
        }
    }
    println!("{found} planted bugs found, {} not, {skipped} not tried on this machine", missed.len());
    if missed.is_empty() {
        return Ok(());
    }
    bail!("not found: {}\nhint: write the test that turns red, or correct the entry", missed.join(", "))
}
