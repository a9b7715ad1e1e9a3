//! Plants the bugs in groups, twice, and tells which are found beyond doubt. Called by the front door, which plants all
//! others alone.
//!
//! ```text
//! first pass:  groups of any bugs   ──▶ all tests: which turn red, and which stay green beside which bugs
//! second pass: groups of bugs whose ──▶ each bug's own test, by itself: red, and no other bug of the build is to blame
//!              tests stayed green beside each other
//! ```
//!
//! A bug that did not turn its test red in both passes, or that fits into no group, is not judged here: nor is one that
//! does not compile, hangs, or whose test is skipped.

use std::time::Instant;

use anyhow::Result;

use super::groups::{self, Cleared, Group};
use super::list::Mutant;
use super::run::{self, Verdict};
use super::scratch::Scratch;

/// Tells of each bug of a family that is found.
pub fn run<'a>(scratch: &Scratch, family: &[&'a Mutant], mut found: impl FnMut(&'a Mutant)) -> Result<()> {
    let mut cleared = Cleared::default();
    let mut suspects = Vec::new();
    for group in several(groups::first(family)) {
        let begun = Instant::now();
        let seen = run::with_planted(scratch, &group, family, || run::green(scratch, family))?;
        let Some(green) = compiled(seen, &group) else { continue };
        let is_in = |mutants: &[&Mutant], one: &Mutant| mutants.iter().any(|other| other.name == one.name);
        suspects.extend(group.iter().copied().filter(|mutant| !is_in(&green, mutant)));
        let others = family.iter().copied().filter(|mutant| !is_in(&group, mutant));
        let (clear, red): (Vec<_>, Vec<_>) = others.partition(|mutant| is_in(&green, mutant));
        clear.into_iter().for_each(|mutant| cleared.stayed_green(mutant, &group));
        let (planted, red, seconds) = (group.len(), red.len(), begun.elapsed().as_secs());
        eprintln!("mutants: {planted} at once, {red} other tests not green, {seconds} s");
    }
    for group in several(groups::second(&suspects, &cleared)) {
        let seen = run::with_planted(scratch, &group, &group, || {
            group.iter().map(|mutant| run::one(scratch, mutant)).collect::<Result<Vec<_>>>()
        })?;
        let Some(verdicts) = compiled(seen, &group) else { continue };
        let red = group.into_iter().zip(verdicts).filter(|(_, verdict)| *verdict == Verdict::Found);
        red.for_each(|(mutant, _)| found(mutant));
    }
    Ok(())
}

/// Those that can be of use: what is planted alone is judged alone.
fn several(groups: Vec<Group<'_>>) -> impl Iterator<Item = Group<'_>> {
    groups.into_iter().filter(|group| group.len() > 1)
}

fn compiled<T>(seen: Result<T, String>, group: &Group<'_>) -> Option<T> {
    seen.inspect_err(|error| {
        let names: Vec<&str> = group.iter().map(|mutant| mutant.name.as_str()).collect();
        eprintln!("mutants: these do not compile together: {}: {error}", names.join(", "));
    })
    .ok()
}
