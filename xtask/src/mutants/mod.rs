//! `cargo xtask mutants`: plants the bugs of `tests/mutants.toml` and sees whether a test finds each.
//!
//! ```text
//! copy of the checkout ──▶ all named tests pass ──▶ twice: plant a group, build, run its tests, take back
//!                                               ──▶ each that is not found so: the same with it alone
//! ```
//!
//! A test that stays green with its guard taken away is no test of that guard. The checkout itself is never touched;
//! `tidy` checks that every entry still fits the code.

mod groups;
mod journal;
mod list;
mod passes;
mod run;
mod scratch;

use anyhow::{Context, Result, bail};

use crate::repo;
use journal::Journal;
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
    /// Go on where the last run was interrupted; it begins anew when a file has changed since
    #[arg(long)]
    resume: bool,
}

/// Plants the bugs; an error means that some were not found.
pub fn run(args: &Args) -> Result<()> {
    let root = repo::root();
    let all = load(&root)?;
    if let Some(unknown) = args.only.iter().find(|name| all.iter().all(|mutant| mutant.name != **name)) {
        bail!("there is no bug {unknown:?} in {FILE}\nhint: `cargo xtask mutants --list` shows all");
    }
    let chosen = |mutant: &&Mutant| args.only.is_empty() || args.only.contains(&mutant.name);
    let mutants: Vec<&Mutant> = all.iter().filter(chosen).collect();
    if args.list {
        for Mutant { name, bug, test, .. } in mutants {
            println!("{name}: {bug}\n    found by {test}");
        }
        return Ok(());
    }
    let dir = repo::target_dir().join("mutants");
    let scratch = Scratch::copy(&root, &dir)?;
    let journal = dir.join(if args.only.is_empty() { "journal" } else { "journal-only" });
    let mut journal = Journal::open(&journal, scratch.sum(), args.resume)?;
    let mut tally = Tally { of: mutants.len(), ..Tally::default() };
    for family in groups::families(&mutants) {
        let name = format!("the tests of {} as they are", groups::name(&family));
        if journal.seen(&name).is_none() {
            eprintln!("mutants: {name}");
            run::baseline(&scratch, &family)?;
            journal.done(name, Vec::new())?;
        }
        let found =
            passes::run(&scratch, &mut journal, &family, |mutant| tally.add(mutant, &Verdict::Found))?;
        for mutant in family.into_iter().filter(|mutant| !found.contains(mutant.name.as_str())) {
            tally.add(mutant, &alone(&scratch, &mut journal, mutant)?);
        }
    }
    tally.end()
}

fn alone(scratch: &Scratch, journal: &mut Journal, mutant: &Mutant) -> Result<Verdict> {
    let step = format!("alone: {}", mutant.name);
    if journal.seen(&step).is_some() {
        return Ok(Verdict::Found);
    }
    let verdict = run::alone(scratch, mutant).with_context(|| format!("cannot plant {}", mutant.name))?;
    // Any other is tried again.
    if verdict == Verdict::Found {
        journal.done(step, Vec::new())?;
    }
    Ok(verdict)
}

/// What came of those that are done.
#[derive(Default)]
struct Tally {
    of: usize,
    found: usize,
    skipped: usize,
    missed: Vec<String>,
}

impl Tally {
    fn add(&mut self, mutant: &Mutant, verdict: &Verdict) {
        match verdict {
            Verdict::Found => self.found += 1,
            Verdict::Skipped => self.skipped += 1,
            Verdict::Survived | Verdict::Hung | Verdict::NoBuild(_) => self.missed.push(mutant.name.clone()),
        }
        let at = self.found + self.skipped + self.missed.len();
        println!("{at:>3}/{} {}: {verdict}", self.of, mutant.name);
    }

    fn end(self) -> Result<()> {
        let Self { found, skipped, missed, .. } = self;
        println!("{found} planted bugs found, {} not, {skipped} not tried on this machine", missed.len());
        if missed.is_empty() {
            return Ok(());
        }
        bail!("not found: {}\nhint: write the test that turns red, or correct the entry", missed.join(", "))
    }
}
