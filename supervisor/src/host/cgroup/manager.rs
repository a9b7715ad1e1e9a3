//! Creates groups in the place that detection found.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::group::{Cgroup, CgroupRecord, Place};
use super::{CgroupError, LimitKind, Limits, Unenforced, kill, v1, v2};

/// The directory that holds the groups of all machines of a supervisor.
pub(super) const CONTAINER: &str = "rekindle";

/// Longest name of a group.
const MAX_NAME: usize = 64;

/// Which generation of control groups is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        })
    }
}

/// What this host offers, and the maker of groups.
#[derive(Debug, Clone)]
pub struct CgroupManager {
    pub(super) version: Option<CgroupVersion>,
    /// The container directory in each hierarchy, made when first needed.
    pub(super) containers: Vec<Place>,
    pub(super) unenforced: Vec<Unenforced>,
}

impl CgroupManager {
    /// A manager that enforces nothing, for `reason`.
    #[must_use]
    pub fn none(reason: &str) -> Self {
        let unenforced = LimitKind::ALL.map(|limit| Unenforced { limit, reason: reason.to_owned() }).to_vec();
        Self { version: None, containers: Vec::new(), unenforced }
    }

    /// A manager that claims to enforce everything and makes no group.
    #[cfg(test)]
    pub(crate) fn enforcing_all_for_tests() -> Self {
        Self { version: None, containers: Vec::new(), unenforced: Vec::new() }
    }

    /// The generation in use, or `None` when groups cannot be made here.
    #[must_use]
    pub fn version(&self) -> Option<CgroupVersion> {
        self.version
    }

    /// The limits that will not be enforced, each with its reason.
    #[must_use]
    pub fn unenforced(&self) -> &[Unenforced] {
        &self.unenforced
    }

    /// The same without a limit that cannot be set, for a reason outside the groups.
    #[must_use]
    pub fn without(mut self, missing: Unenforced) -> Self {
        for container in &mut self.containers {
            let controller = match self.version {
                Some(CgroupVersion::V1) => v1::controllers_of(missing.limit),
                Some(CgroupVersion::V2) | None => v2::controllers_of(missing.limit),
            };
            container.controllers.retain(|name| name != controller);
        }
        if !self.unenforced.iter().any(|entry| entry.limit == missing.limit) {
            self.unenforced.push(missing);
        }
        self
    }

    /// Refuses limits that this host cannot enforce, for a configuration that demands them.
    ///
    /// # Errors
    /// [`CgroupError::Required`] naming each of them.
    pub fn require(&self, limits: &Limits) -> Result<(), CgroupError> {
        let wanted: Vec<LimitKind> = limits.kinds().collect();
        let missing: Vec<Unenforced> =
            self.unenforced.iter().filter(|entry| wanted.contains(&entry.limit)).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(CgroupError::Required { missing }) }
    }

    /// What [`create`](Self::create) would make, for a record that must exist before the group does.
    #[must_use]
    pub fn planned(&self, name: &str) -> CgroupRecord {
        CgroupRecord { dirs: self.containers.iter().map(|container| container.dir.join(name)).collect() }
    }

    /// Makes a group with as many of the limits as this host enforces.
    ///
    /// # Errors
    /// When the name is not a plain one, or the kernel refuses; nothing is left behind then.
    pub fn create(&self, name: &str, limits: &Limits) -> Result<Cgroup, CgroupError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
            return Err(CgroupError::Name { name: name.to_owned() });
        }
        // Filled as directories are made, so that a failure half-way removes what there is.
        let mut group = Cgroup { version: self.version, places: Vec::new() };
        for container in &self.containers {
            let dir = container.dir.join(name);
            self.make_in_container(container, &dir)?;
            group.places.push(Place { dir, controllers: container.controllers.clone() });
        }
        match (self.version, group.places.first()) {
            (Some(CgroupVersion::V1), _) => v1::apply(&group.places, limits)?,
            (Some(CgroupVersion::V2), Some(place)) => v2::apply(place, limits)?,
            _ => {}
        }
        Ok(group)
    }

    fn make_in_container(&self, container: &Place, dir: &Path) -> Result<(), CgroupError> {
        // The container goes when its last group goes, perhaps right between these two calls.
        for _ in 0..16 {
            match fs::create_dir(&container.dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(CgroupError::file("create", &container.dir)(error)),
            }
            if self.version == Some(CgroupVersion::V2) {
                match enable(&container.dir, &container.controllers) {
                    Err(CgroupError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                        continue;
                    }
                    other => other?,
                }
            }
            match fs::create_dir(dir) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A group of that name from a supervisor that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    kill::empty(dir)?;
                    kill::remove(dir)?;
                }
                Err(error) => return Err(CgroupError::file("create", dir)(error)),
            }
        }
        Err(CgroupError::file("create", dir)(io::ErrorKind::ResourceBusy.into()))
    }
}

/// Hands controllers down to the children of a group in the unified hierarchy.
pub(super) fn enable(dir: &Path, controllers: &[String]) -> Result<(), CgroupError> {
    let place = Place { dir: dir.to_owned(), controllers: Vec::new() };
    let enabled = place.text("cgroup.subtree_control")?;
    for controller in controllers {
        if !enabled.split_ascii_whitespace().any(|name| name == controller) {
            place.write("cgroup.subtree_control", &format!("+{controller}"))?;
        }
    }
    Ok(())
}
