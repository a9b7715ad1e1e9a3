//! Which parts of a snapshot's memory the first program of a clone touches, kept beside the snapshot.
//!
//! A hint and nothing more: it names parts of a file to read early when they are on the disk, and pages that every
//! clone writes to, so that an engine can prefault them. It is no part of
//! what the manifest vouches for, because a missing or wrong one costs time and never correctness. It is
//! written after the snapshot is published, by the first clone that ever ran, and never changed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::load::Snapshot;
use super::root::MEMORY;
use crate::host::mapped::PAGE;

/// The file's name.
const FILE: &str = "working-set.json";
/// The form of the file; another one is not used.
const FORMAT: u32 = 1;
/// Longest file that is read, and most parts in it.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_PARTS: usize = 32 * 1024;
/// Most pages that are prefaulted: what they hold is no longer shared.
const MAX_PREFAULT: usize = 2048;

/// Parts of the memory file, in order and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSet {
    format: u32,
    /// Where each part begins and how long it is, in bytes.
    parts: Vec<(u64, u64)>,
    /// Pages that a clone has written to once its first program, a line of shell, is done. Files that exist call
    /// them `copied`.
    #[serde(default, rename = "copied")]
    prefault: Vec<u64>,
}

impl WorkingSet {
    /// The set of all `blocks` of `size` bytes; the numbers are in order.
    #[must_use]
    pub fn of_blocks(blocks: impl IntoIterator<Item = u64>, size: u64) -> Self {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for block in blocks {
            match parts.last_mut() {
                Some((start, length)) if *start + *length == block * size => *length += size,
                _ => parts.push((block * size, size)),
            }
        }
        Self { format: FORMAT, parts, prefault: Vec::new() }
    }

    /// The same set with the pages that every clone writes to; none if they are too many to be a clone's least.
    #[must_use]
    pub fn with_prefault(self, pages: impl IntoIterator<Item = u64>) -> Self {
        let prefault: Vec<u64> = pages.into_iter().collect();
        Self { prefault: if prefault.len() > MAX_PREFAULT { Vec::new() } else { prefault }, ..self }
    }

    /// The pages that every clone writes to, by their number in the memory file.
    pub fn prefault(&self) -> impl ExactSizeIterator<Item = u64> {
        self.prefault.iter().copied()
    }

    /// The parts.
    #[must_use]
    pub fn parts(&self) -> &[(u64, u64)] {
        &self.parts
    }

    /// Bytes in all of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, length)| length).sum()
    }

    /// Whether it can be about a file of this length.
    fn fits(&self, length: u64) -> bool {
        let inside = |(start, size): &(u64, u64)| start.checked_add(*size).is_some_and(|end| end <= length);
        let page_inside = |page: &u64| page.checked_mul(PAGE).is_some_and(|start| start < length);
        self.format == FORMAT
            && self.parts.len() <= MAX_PARTS
            && self.parts.iter().all(inside)
            && self.prefault.len() <= MAX_PREFAULT
            && self.prefault.iter().all(page_inside)
    }

    fn read(dir: &Path, length: u64) -> Option<Self> {
        let path = dir.join(FILE);
        if fs::metadata(&path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let set: Self = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        set.fits(length).then_some(set)
    }
}

impl Snapshot {
    /// What the first program touches, where that is known.
    #[must_use]
    pub fn working_set(&self) -> Option<&WorkingSet> {
        let read = || WorkingSet::read(self.dir(), self.manifest().memory.size);
        self.working_set.get_or_init(read).as_ref()
    }

    /// The file that the working set is about.
    #[must_use]
    pub fn memory(&self) -> std::path::PathBuf {
        self.dir().join(MEMORY)
    }

    /// Keeps a working set beside the snapshot.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_working_set(&self, set: &WorkingSet) -> Result<(), StoreError> {
        let path = self.dir().join(FILE);
        let text = serde_json::to_vec(set).expect("numbers are always JSON");
        // Written aside: half of one would be read as none for ever.
        let aside = tempfile::NamedTempFile::new_in(self.dir())
            .map_err(StoreError::file("create a file in", self.dir()))?;
        fs::write(aside.path(), text).map_err(StoreError::file("write", aside.path()))?;
        aside.persist(&path).map_err(|error| StoreError::file("rename to", &path)(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Neighbours become one part, and what cannot be about the file is not used.

    use super::*;

    const BLOCK: u64 = 64 * 1024;

    #[test]
    fn neighbouring_blocks_are_one_part() {
        let set = WorkingSet::of_blocks([0, 1, 2, 7, 9, 10], BLOCK);
        assert_eq!(set.parts(), [(0, 3 * BLOCK), (7 * BLOCK, BLOCK), (9 * BLOCK, 2 * BLOCK)]);
        assert_eq!(set.bytes(), 6 * BLOCK);
    }

    #[test]
    fn a_set_comes_back_as_it_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let set = WorkingSet::of_blocks([3, 4], BLOCK).with_prefault([1, 5, 9]);
        fs::write(dir.path().join(FILE), serde_json::to_vec(&set).unwrap()).unwrap();
        assert_eq!(WorkingSet::read(dir.path(), 1 << 30), Some(set));
    }

    #[test]
    fn one_of_version_0_1_0_is_read_as_it_was_written() {
        const GOLDEN: &str = include_str!("../../tests/golden/0.1.0/working-set.json");
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), GOLDEN).unwrap();
        let set = WorkingSet::of_blocks([0, 1, 7], BLOCK).with_prefault([1, 5, 9]);
        assert_eq!(WorkingSet::read(dir.path(), 1 << 30), Some(set.clone()));
        assert_eq!(serde_json::to_string(&set).unwrap(), GOLDEN, "and is still written so");
    }

    #[test]
    fn one_of_before_pages_were_prefaulted_names_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), r#"{"format":1,"parts":[[0,65536]]}"#).unwrap();
        let set = WorkingSet::read(dir.path(), 1 << 30).unwrap();
        assert_eq!((set.parts().len(), set.prefault().len()), (1, 0));
    }

    #[test]
    fn more_than_a_clones_least_is_not_prefaulted() {
        let kept = |count| WorkingSet::default().with_prefault(0..count).prefault().len();
        assert_eq!((kept(2048), kept(2049)), (2048, 0));
    }

    #[test]
    fn one_that_is_missing_damaged_or_about_another_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(WorkingSet::read(dir.path(), 1 << 30), None);
        let path = dir.path().join(FILE);
        for text in [
            "{",
            r#"{"format":2,"parts":[]}"#,
            r#"{"format":1,"parts":[[1073741824,65536]]}"#,
            r#"{"format":1,"parts":[[18446744073709551615,2]]}"#,
            r#"{"format":1,"parts":[],"copied":[262144]}"#,
            r#"{"format":1,"parts":[],"copied":[18446744073709551615]}"#,
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(WorkingSet::read(dir.path(), 1 << 30), None, "{text}");
        }
    }
}
