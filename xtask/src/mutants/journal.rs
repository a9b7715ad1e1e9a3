//! What a run has seen so far, in a file, so that one that was interrupted can be gone on with. It is of use only while
//! nothing has changed: its first line is the sum of the checkout.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

/// Steps that are done, and what was seen in each.
pub struct Journal {
    file: File,
    steps: BTreeMap<String, Vec<String>>,
}

impl Journal {
    /// Goes on with the one that is there, or begins anew.
    pub fn open(path: &Path, sum: &str, resume: bool) -> Result<Self> {
        let before = if resume { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
        let steps: BTreeMap<_, _> = match before.split_once('\n') {
            // A line that was not written to its end is a step that was not done.
            Some((of, lines)) if of == sum => {
                lines.lines().filter_map(|line| serde_json::from_str::<(String, _)>(line).ok()).collect()
            }
            _ => BTreeMap::new(),
        };
        if steps.is_empty() {
            fs::write(path, format!("{sum}\n"))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let file = OpenOptions::new().append(true).open(path);
        let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if !before.is_empty() && !before.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { file, steps })
    }

    /// What was seen in a step, if it was done.
    pub fn seen(&self, step: &str) -> Option<&[String]> {
        self.steps.get(step).map(Vec::as_slice)
    }

    /// A step is done.
    pub fn done(&mut self, step: String, seen: Vec<String>) -> Result<()> {
        let line = serde_json::to_string(&(&step, &seen))?;
        self.file.write_all(format!("{line}\n").as_bytes()).context("cannot write the journal")?;
        self.steps.insert(step, seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_is_gone_on_with_unless_something_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let open = |sum: &str, resume: bool| Journal::open(&path, sum, resume).unwrap();
        let mut journal = open("sum", true);
        journal.done("one".into(), vec!["a\tb".into()]).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}[\"two\", [\"cut")).unwrap();
        let mut journal = open("sum", true);
        assert_eq!(journal.seen("one").unwrap(), ["a\tb"]);
        assert!(journal.seen("two").is_none());
        journal.done("three".into(), Vec::new()).unwrap();
        assert!(open("sum", true).seen("three").is_some());
        assert!(open("another", true).seen("one").is_none());
        open("sum", true).done("one".into(), Vec::new()).unwrap();
        assert!(open("sum", false).seen("one").is_none());
    }
}
