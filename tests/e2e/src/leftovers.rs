//! What commands and machines can leave behind on a host, and the proof that they did not.
//!
//! Everything is found by the data directory it belongs to: other supervisors may be at work on this host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::lab::monitor_in;

/// What was found at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Processes that have to do with the data directory.
    pub processes: BTreeSet<String>,
    /// Control groups of its machines.
    pub cgroups: BTreeSet<PathBuf>,
    /// Work directories, sockets and half-built snapshots.
    pub files: BTreeSet<PathBuf>,
    /// Mounts on or from it.
    pub mounts: BTreeSet<String>,
}

impl Leftovers {
    /// Asserts that there is nothing.
    ///
    /// # Panics
    /// When there is something.
    pub fn assert_none(&self) {
        assert_eq!(*self, Self::default());
    }
}

/// Names of the machines that are, or were when their supervisor died, in this data directory.
#[must_use]
pub fn machines(data: &Path) -> BTreeSet<String> {
    machine_dirs(data).iter().filter_map(|dir| dir.file_name()?.to_str().map(str::to_owned)).collect()
}

/// Process ids of their monitors, as recorded.
#[must_use]
pub fn monitors(data: &Path) -> BTreeSet<u32> {
    machine_dirs(data).iter().filter_map(|dir| monitor_in(dir)).collect()
}

/// Looks for what is left of the work in `data`, and of the `machines` that were in it.
///
/// Directories of `living` supervisors, such as this process's own, are not leftovers.
#[must_use]
pub fn find(data: &Path, machines: &BTreeSet<String>, living: &BTreeSet<PathBuf>) -> Leftovers {
    let files = entries(&data.join("run"))
        .into_iter()
        .chain(entries(&data.join("staging")))
        .filter(|path| !living.contains(path))
        .collect();
    let text = data.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    Leftovers {
        processes: processes(&text),
        cgroups: cgroups(machines),
        files,
        mounts: mounts.lines().filter(|line| line.contains(&text)).map(str::to_owned).collect(),
    }
}

/// Directories of the supervisors that use `data` now.
#[must_use]
pub fn supervisors(data: &Path) -> BTreeSet<PathBuf> {
    entries(&data.join("run")).into_iter().collect()
}

fn machine_dirs(data: &Path) -> Vec<PathBuf> {
    let instances = entries(&data.join("run"));
    instances.iter().flat_map(|instance| entries(instance)).filter(|path| path.is_dir()).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Processes other than this one that hold a file below the directory or name it in their words.
fn processes(data: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for process in entries(Path::new("/proc")) {
        let pid = process.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(number) = pid.parse::<u32>() else { continue };
        if number == std::process::id() {
            continue;
        }
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        // The shell that removes the directory in the end names it by design.
        if words.starts_with("sh -c read") {
            continue;
        }
        let holds = |path: &PathBuf| {
            fs::read_link(path).is_ok_and(|target| target.display().to_string().contains(data))
        };
        if words.contains(data)
            || entries(&process.join("fd")).iter().any(holds)
            || holds(&process.join("cwd"))
        {
            found.insert(format!("{pid}: {}", words.chars().take(120).collect::<String>()));
        }
    }
    found
}

/// Groups named after one of the machines, wherever they are.
#[must_use]
pub fn cgroups(machines: &BTreeSet<String>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut pending = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = pending.pop() {
        for path in entries(&dir).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if machines.contains(name) {
                found.insert(path.clone());
            }
            pending.push(path);
        }
    }
    found
}
