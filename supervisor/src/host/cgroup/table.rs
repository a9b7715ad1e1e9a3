//! Reads `/proc/self/mountinfo` and `/proc/self/cgroup`: where each hierarchy is, and where we are in it.
//!
//! Pure text handling, used by detection.

use std::path::{Path, PathBuf};

/// The hierarchies of a host, as directories in which the running process's own group lies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    /// The unified hierarchy.
    pub(super) unified: Option<Own>,
    /// The older hierarchies, each with its controllers.
    pub(super) legacy: Vec<(Vec<String>, Own)>,
}

/// Our place in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    /// Where the hierarchy is mounted.
    pub(super) mount: PathBuf,
    /// The directory of our own group.
    pub(super) dir: PathBuf,
}

impl Hierarchies {
    pub(super) fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mut found = Self::default();
        for line in mountinfo.lines() {
            let Some(mount) = Mount::parse(line) else { continue };
            if mount.kind == "cgroup2" && found.unified.is_none() {
                found.unified = own_path(cgroup, "0", "").and_then(|own| mount.locate(own));
            } else if mount.kind == "cgroup" {
                let line = cgroup.lines().find_map(|line| {
                    let mut parts = line.splitn(3, ':');
                    let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
                    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
                    names.iter().all(|name| mount.options.contains(&name.as_str())).then_some((names, path))
                });
                if let Some((names, path)) = line
                    && let Some(own) = mount.locate(path)
                {
                    found.legacy.push((names, own));
                }
            }
        }
        found
    }
}

fn own_path<'a>(cgroup: &'a str, id: &str, names: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        (parts.next()? == id && parts.next()? == names).then(|| parts.next()).flatten()
    })
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /point rw,opts shared:1 - type source super,opts`
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut fields = after.split(' ');
        let (kind, _source, options) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { root, point, kind, options: options.split(',').collect() })
    }

    /// The directory of group `path`, if this mount shows it.
    fn locate(&self, path: &str) -> Option<Own> {
        let below = Path::new(path).strip_prefix(self.root).ok()?;
        // A group outside our namespace reads as `/../…`.
        if below.components().any(|part| part == std::path::Component::ParentDir) {
            return None;
        }
        let mount = PathBuf::from(self.point);
        let dir = if below.as_os_str().is_empty() { mount.clone() } else { mount.join(below) };
        Some(Own { mount, dir })
    }
}
