//! Finds where groups can be made, and explains what cannot be enforced.
//!
//! The unified hierarchy is used when it carries the controllers that matter; a hybrid host, where it
//! carries none, is used through its older hierarchies. Groups are made below the supervisor's own
//! group where limits may be set on the supervisor as a whole, so that they keep holding.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::group::Place;
use super::manager::{CONTAINER, CgroupManager, CgroupVersion, enable};
use super::table::{Hierarchies, Own};
use super::{LimitKind, Unenforced, v1, v2};

/// The leaf into which a supervisor with a delegated group moves itself, because the unified hierarchy
/// allows no processes beside child groups. systemd's `DelegateSubgroup=` uses the same name.
const SUPERVISOR_LEAF: &str = "supervisor";

impl CgroupManager {
    /// Looks at the host. `parent` is a configured group, relative to the hierarchy's root, in which
    /// to make ours; without it the best one is chosen.
    #[must_use]
    pub fn detect(parent: Option<&Path>) -> Self {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::from_hierarchies(&Hierarchies::parse(&mountinfo, &cgroup), parent)
    }

    pub(super) fn from_hierarchies(found: &Hierarchies, parent: Option<&Path>) -> Self {
        if let Some(own) = &found.unified
            && controllers(&own.mount).iter().any(|name| name == "memory")
        {
            return unified(own, parent);
        }
        if !found.legacy.is_empty() {
            return legacy(&found.legacy, parent);
        }
        Self::none(if found.unified.is_some() {
            "no controllers in the cgroup hierarchy"
        } else {
            "no cgroup hierarchy is mounted"
        })
    }
}

fn legacy(hierarchies: &[(Vec<String>, Own)], parent: Option<&Path>) -> CgroupManager {
    const USED: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "blkio"];
    let mut containers = Vec::new();
    let mut refused: Vec<(String, String)> = Vec::new();
    for (names, own) in hierarchies {
        let useful: Vec<String> =
            names.iter().filter(|name| USED.contains(&name.as_str())).cloned().collect();
        if useful.is_empty() {
            continue;
        }
        let base = parent.map_or_else(|| own.dir.clone(), |parent| below(&own.mount, parent));
        match access(&base, AccessFlags::W_OK) {
            Ok(()) => containers.push(Place { dir: base.join(CONTAINER), controllers: useful }),
            Err(error) => {
                let reason = format!("{} is not writable: {}", base.display(), error.desc());
                refused.extend(useful.into_iter().map(|name| (name, reason.clone())));
            }
        }
    }
    let mut unenforced = Vec::new();
    for limit in LimitKind::ALL {
        let controller = v1::controllers_of(limit);
        if containers.iter().any(|place| place.has(controller)) {
            continue;
        }
        let reason = refused
            .iter()
            .find(|(name, _)| name == controller)
            .map_or_else(|| format!("the host has no {controller} controller"), |(_, reason)| reason.clone());
        unenforced.push(Unenforced { limit, reason });
    }
    let version = (!containers.is_empty()).then_some(CgroupVersion::V1);
    CgroupManager { version, containers, unenforced }
}

fn unified(own: &Own, parent: Option<&Path>) -> CgroupManager {
    let mut reasons = Vec::new();
    for base in candidates(own, parent) {
        match open_base(&base, own) {
            Ok((enabled, unenforced)) => {
                let container = Place { dir: base.join(CONTAINER), controllers: enabled };
                return CgroupManager {
                    version: Some(CgroupVersion::V2),
                    containers: vec![container],
                    unenforced,
                };
            }
            Err(reason) => reasons.push(reason),
        }
    }
    CgroupManager::none(&reasons.join(", "))
}

/// Groups in which ours could be made, best first.
fn candidates(own: &Own, parent: Option<&Path>) -> Vec<PathBuf> {
    if let Some(parent) = parent {
        return vec![below(&own.mount, parent)];
    }
    let mut list = Vec::new();
    if own.dir.file_name().is_some_and(|name| name == SUPERVISOR_LEAF)
        && let Some(delegated) = own.dir.parent()
    {
        list.push(delegated.to_owned());
    }
    list.push(own.dir.clone());
    if own.dir != own.mount {
        list.push(own.mount.clone());
    }
    list
}

/// Enables the controllers for the children of `base`; which of them work, or why none does.
fn open_base(base: &Path, own: &Own) -> Result<(Vec<String>, Vec<Unenforced>), String> {
    if let Err(error) = access(&base.join("cgroup.subtree_control"), AccessFlags::W_OK) {
        return Err(format!("{} is not delegated: {}", base.display(), error.desc()));
    }
    if base == own.dir && base != own.mount {
        step_aside(base);
    }
    let available = controllers(base);
    let (mut enabled, mut unenforced) = (Vec::new(), Vec::new());
    for limit in LimitKind::ALL {
        let controller = v2::controllers_of(limit).to_owned();
        if !available.contains(&controller) {
            let reason = format!("{} has no {controller} controller", base.display());
            unenforced.push(Unenforced { limit, reason });
            continue;
        }
        match enable(base, std::slice::from_ref(&controller)) {
            Ok(()) => enabled.push(controller),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                unenforced.push(Unenforced { limit, reason: format!("{error}: {source}") });
            }
        }
    }
    if enabled.is_empty() {
        let reasons: Vec<String> = unenforced.iter().map(|entry| entry.reason.clone()).collect();
        return Err(reasons.first().cloned().unwrap_or_else(|| format!("{} offers nothing", base.display())));
    }
    Ok((enabled, unenforced))
}

/// Moves the supervisor into a leaf of its own delegated group, with the processes it has already started, if there
/// are no others.
///
/// Where there are, the group belongs to someone's session and enabling controllers will say so.
fn step_aside(base: &Path) {
    let own = std::process::id();
    if !members(base).is_some_and(|members| members.iter().all(|pid| descends_from(*pid, own))) {
        return;
    }
    let leaf = base.join(SUPERVISOR_LEAF);
    let _ = fs::create_dir(&leaf);
    // First of all: what is started from now on is in the leaf with it.
    let _ = fs::write(leaf.join("cgroup.procs"), "0");
    for pid in members(base).unwrap_or_default().into_iter().filter(|pid| *pid != own) {
        let _ = fs::write(leaf.join("cgroup.procs"), pid.to_string());
    }
}

fn members(group: &Path) -> Option<Vec<u32>> {
    let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    text.split_ascii_whitespace().map(|pid| pid.parse().ok()).collect()
}

/// Whether a process is `ancestor`, or was started by it or by something it started.
fn descends_from(mut pid: u32, ancestor: u32) -> bool {
    while pid != ancestor {
        match parent(pid) {
            Some(next) if next > 1 || next == ancestor => pid = next,
            _ => return false,
        }
    }
    true
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn controllers(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// `path` inside `mount`, whether or not it is written with a leading slash.
fn below(mount: &Path, path: &Path) -> PathBuf {
    mount.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_supervisor_steps_aside_with_its_children_and_not_from_among_strangers() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("started");
        let own = std::process::id();
        for (members, moves) in [
            (format!("{own}\n"), true),
            (format!("{own}\n{}\n", child.id()), true),
            // Somebody's session.
            (format!("{own}\n1\n"), false),
        ] {
            let base = tempfile::tempdir().expect("a directory");
            fs::write(base.path().join("cgroup.procs"), &members).expect("written");
            step_aside(base.path());
            assert_eq!(base.path().join(SUPERVISOR_LEAF).join("cgroup.procs").exists(), moves, "{members}");
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
}
