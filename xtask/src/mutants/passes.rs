//! Plants the bugs in groups, twice, and tells which are found beyond doubt. Called by the front door, which plants all
//! others alone.
//!
//! ```text
//! first pass:  groups of any bugs   ──▶ all tests: which turn red, and which stay green beside which bugs
//! second pass: groups of bugs whose ──▶ each bug's own test, by itself: red, and no other bug of the build is to blame
//!              tests stayed green beside each other
//! ```
//!
//! To be found by mistake, a bug would have to meet, in both passes, another one that turns its test red only together
//! with it. One that did not turn its test red in both, or that fits into no group, is not judged here: nor is one that
//! does not compile, hangs, or whose test is skipped.

use std::collections::BTreeSet;

use anyhow::Result;

use super::groups::{self, Cleared, Group};
use super::journal::Journal;
use super::list::Mutant;
use super::run::{self, Verdict};
use super::scratch::Scratch;

/// Two passes over fewer bugs than these save little or nothing.
const FEWEST: usize = 8;

/// Tells of each bug of a family that is found, and returns their names.
pub fn run<'a>(
    scratch: &Scratch,
    journal: &mut Journal,
    family: &[&'a Mutant],
    mut tell: impl FnMut(&Mutant),
) -> Result<BTreeSet<&'a str>> {
    let mut found = BTreeSet::new();
    if family.len() < FEWEST {
        return Ok(found);
    }
    let (suspects, cleared) = first(scratch, journal, family)?;
    for group in several(groups::second(&suspects, &cleared)) {
        let step = format!("red: {}", names(&group).join(" "));
        if journal.seen(&step).is_none() {
            let seen = run::with_planted(scratch, &group, &group, || {
                group.iter().map(|mutant| run::one(scratch, mutant)).collect::<Result<Vec<_>>>()
            })?;
            let Some(verdicts) = compiled(seen, &group) else { continue };
            let verdicts = group.iter().zip(verdicts);
            let red = verdicts.filter(|(_, verdict)| *verdict == Verdict::Found);
            journal.done(step.clone(), red.map(|(mutant, _)| mutant.name.clone()).collect())?;
        }
        let red = journal.seen(&step).unwrap_or_default();
        for mutant in group.iter().filter(|mutant| red.contains(&mutant.name)) {
            tell(mutant);
            found.insert(mutant.name.as_str());
        }
    }
    Ok(found)
}

/// The bugs in whose groups their tests were not green, and which tests stayed green beside which.
fn first<'a>(
    scratch: &Scratch,
    journal: &mut Journal,
    family: &[&'a Mutant],
) -> Result<(Vec<&'a Mutant>, Cleared<'a>)> {
    let (mut suspects, mut cleared) = (Vec::new(), Cleared::default());
    for group in several(groups::first(family)) {
        let step = format!("green: {}", names(&group).join(" "));
        if journal.seen(&step).is_none() {
            let seen = run::with_planted(scratch, &group, family, || run::green(scratch, family))?;
            let Some(green) = compiled(seen, &group) else { continue };
            eprintln!("mutants: {} planted, {} of {} tests green", group.len(), green.len(), family.len());
            journal.done(step.clone(), names(&green).into_iter().map(str::to_owned).collect())?;
        }
        let green = journal.seen(&step).unwrap_or_default();
        for mutant in family {
            let planted = group.iter().any(|other| other.name == mutant.name);
            match (planted, green.contains(&mutant.name)) {
                (true, false) => suspects.push(*mutant),
                (false, true) => cleared.stayed_green(mutant, &group),
                (true, true) | (false, false) => {}
            }
        }
    }
    Ok((suspects, cleared))
}

fn names<'a>(mutants: &[&'a Mutant]) -> Vec<&'a str> {
    mutants.iter().map(|mutant| mutant.name.as_str()).collect()
}

/// Those that can be of use: what is planted alone is judged alone.
fn several(groups: Vec<Group<'_>>) -> impl Iterator<Item = Group<'_>> {
    groups.into_iter().filter(|group| group.len() > 1)
}

fn compiled<T>(seen: Result<T, String>, group: &Group<'_>) -> Option<T> {
    seen.inspect_err(|error| {
        eprintln!("mutants: these do not compile together: {}: {error}", names(group).join(", "));
    })
    .ok()
}
