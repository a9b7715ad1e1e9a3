//! One group: its limits, its figures, and its removal.
//!
//! ```text
//! created (limits set, empty) ──join──▶ occupied ──close/drop──▶ killed ──▶ removed
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manager::CgroupVersion;
use super::{CgroupError, CgroupJoin, CpuQuota, CpuWeight, Limits, Usage, kill, v1, v2};
use crate::host::undo;

/// One directory of a group, with the controllers that act there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) controllers: Vec<String>,
}

impl Place {
    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    pub(super) fn write(&self, file: &str, value: &impl ToString) -> Result<(), CgroupError> {
        let path = self.dir.join(file);
        let mut opened =
            OpenOptions::new().write(true).open(&path).map_err(CgroupError::file("open", &path))?;
        // One write call: the kernel takes each as a complete value.
        io::Write::write_all(&mut opened, value.to_string().as_bytes())
            .map_err(CgroupError::file("write", &path))
    }

    pub(super) fn write_if_present(&self, file: &str, value: &impl ToString) -> Result<(), CgroupError> {
        if self.dir.join(file).exists() { self.write(file, value) } else { Ok(()) }
    }

    pub(super) fn text(&self, file: &str) -> Result<String, CgroupError> {
        let path = self.dir.join(file);
        fs::read_to_string(&path).map_err(CgroupError::file("read", &path))
    }

    pub(super) fn number(&self, file: &str) -> Result<u64, CgroupError> {
        let text = self.text(file)?;
        text.trim().parse().map_err(|_| CgroupError::Malformed {
            path: self.dir.join(file),
            text: text.chars().take(80).collect(),
        })
    }
}

/// The directories of a group, written into a VM's record so that a later supervisor can remove them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CgroupRecord {
    /// Every directory of the group.
    pub dirs: Vec<PathBuf>,
}

impl CgroupRecord {
    /// Kills everything in the recorded group and removes it. What is gone already is fine.
    ///
    /// # Errors
    /// When a process cannot be killed or a directory not removed; the rest is still tried.
    pub fn reclaim(&self) -> Result<(), CgroupError> {
        let mut outcome = Ok(());
        for dir in &self.dirs {
            let result = kill::empty(dir).and_then(|()| kill::remove(dir));
            outcome = outcome.and(result);
            if let Some(parent) = dir.parent().filter(|parent| is_ours(parent)) {
                // Refused by the kernel while another machine's group is in it.
                let _ = fs::remove_dir(parent);
            }
        }
        outcome
    }
}

/// Whether a directory is the one that holds our groups and nothing else.
fn is_ours(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == super::manager::CONTAINER)
}

/// A control group. Closing or dropping it kills everything inside and removes it.
#[derive(Debug)]
pub struct Cgroup {
    pub(super) version: Option<CgroupVersion>,
    pub(super) places: Vec<Place>,
}

impl Cgroup {
    /// The ticket for a child to enter this group.
    ///
    /// # Errors
    /// When the group's process lists cannot be opened.
    pub fn join(&self) -> Result<CgroupJoin, CgroupError> {
        // A child enters before it has a second thread. Where single threads can be moved, moving just this
        // one spares it the kernel's lock on all thread groups, and with it a wait of some ten milliseconds.
        let list = if self.version == Some(CgroupVersion::V1) { "tasks" } else { "cgroup.procs" };
        let open = |place: &Place| {
            let path = place.dir.join(list);
            OpenOptions::new()
                .write(true)
                .open(&path)
                .map(Into::into)
                .map_err(CgroupError::file("open", &path))
        };
        let cgroup_fd = match (self.version, self.places.first()) {
            (Some(CgroupVersion::V2), Some(place)) => {
                Some(File::open(&place.dir).map_err(CgroupError::file("open", &place.dir))?.into())
            }
            _ => None,
        };
        Ok(CgroupJoin { procs: self.places.iter().map(open).collect::<Result<_, _>>()?, cgroup_fd })
    }

    /// The limits as the kernel reports them now.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn limits(&self) -> Result<Limits, CgroupError> {
        match (self.version, self.places.first()) {
            (Some(CgroupVersion::V1), _) => v1::read_back(&self.places),
            (Some(CgroupVersion::V2), Some(place)) => v2::read_back(place),
            _ => Ok(Limits::default()),
        }
    }

    /// Changes the share of the processors; the other limits stay. Where there is no such limit, nothing
    /// happens: whether that is acceptable was decided when the group was made.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_cpu(&self, cpu: CpuQuota) -> Result<(), CgroupError> {
        let limits = Limits { cpu: Some(cpu), ..Limits::default() };
        match (self.version, self.places.first()) {
            (Some(CgroupVersion::V1), _) => v1::apply(&self.places, &limits),
            (Some(CgroupVersion::V2), Some(place)) => v2::apply(place, &limits),
            _ => Ok(()),
        }
    }

    /// Says who goes first when the processors are busy. Where groups do not share them, nothing happens.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_cpu_weight(&self, cpu_weight: CpuWeight) -> Result<(), CgroupError> {
        match (self.version, self.places.first()) {
            (Some(CgroupVersion::V1), _) => v1::set_weight(&self.places, cpu_weight),
            (Some(CgroupVersion::V2), Some(place)) => v2::set_weight(place, cpu_weight),
            _ => Ok(()),
        }
    }

    /// What the group has used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match (self.version, self.places.first()) {
            (Some(CgroupVersion::V1), _) => v1::usage(&self.places),
            (Some(CgroupVersion::V2), Some(place)) => v2::usage(place),
            _ => Usage::default(),
        }
    }

    /// The processes inside.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, CgroupError> {
        self.places.first().map_or_else(|| Ok(Vec::new()), |place| kill::processes(&place.dir))
    }

    /// What a later supervisor needs to remove the group.
    #[must_use]
    pub fn record(&self) -> CgroupRecord {
        CgroupRecord { dirs: self.places.iter().map(|place| place.dir.clone()).collect() }
    }

    /// Kills everything inside and removes the group.
    ///
    /// # Errors
    /// When something inside cannot be killed or a directory not removed.
    pub async fn close(mut self) -> Result<(), CgroupError> {
        let record = self.record();
        self.places.clear();
        if record.dirs.is_empty() {
            return Ok(());
        }
        match tokio::task::spawn_blocking(move || record.reclaim()).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let record = self.record();
        undo::later(move || {
            if let Err(error) = record.reclaim() {
                tracing::warn!(%error, dirs = ?record.dirs, "a control group was left behind");
            }
        });
    }
}
