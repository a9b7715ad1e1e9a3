//! Which disk a directory is on, for limits that are set per disk.

use std::fs;
use std::path::Path;

use nix::sys::stat::{major, minor, stat};

/// Major and minor number of the whole disk that holds `path`; `None` where there is no one disk, as on
/// memory, network and copy-on-write file systems.
#[must_use]
pub fn whole_disk(path: &Path) -> Option<(u32, u32)> {
    let device = stat(path).ok()?.st_dev;
    let numbers = (u32::try_from(major(device)).ok()?, u32::try_from(minor(device)).ok()?);
    let entry = format!("/sys/dev/block/{}:{}", numbers.0, numbers.1);
    if !Path::new(&entry).exists() {
        return None;
    }
    if !Path::new(&entry).join("partition").exists() {
        return Some(numbers);
    }
    // A partition's directory is inside its disk's.
    let text = fs::read_to_string(Path::new(&entry).canonicalize().ok()?.parent()?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    //! Memory is no disk.

    use super::*;

    #[test]
    fn a_file_system_in_memory_is_on_no_disk() {
        assert_eq!(whole_disk(Path::new("/proc")), None);
        assert_eq!(whole_disk(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn a_disk_that_is_found_is_a_whole_one() {
        if let Some((major, minor)) = whole_disk(Path::new("/")) {
            assert!(Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists());
            assert!(!Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists());
        }
    }
}
