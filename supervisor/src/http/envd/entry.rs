//! A file or directory as the SDKs know it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::agent::{FileInfo, FileKind, GuestPath};
use crate::http::connect::json::{is_zero, quoted};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryInfo {
    #[serde(skip_serializing_if = "is_zero")]
    pub name: String,
    #[serde(rename = "type", skip_serializing_if = "is_zero")]
    pub kind: Option<&'static str>,
    pub path: String,
    #[serde(serialize_with = "quoted", skip_serializing_if = "is_zero")]
    size: u64,
    #[serde(skip_serializing_if = "is_zero")]
    mode: u32,
    permissions: String,
    owner: String,
    group: String,
    #[serde(skip_serializing_if = "is_zero")]
    modified_time: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    symlink_target: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    metadata: BTreeMap<String, String>,
}

impl EntryInfo {
    /// What is at a path. A symbolic link has the kind of what it leads to, where it leads anywhere; SDKs leave out what has
    /// none.
    pub(super) fn of(path: &GuestPath, info: &FileInfo) -> Self {
        let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
        let link = info.link_target.as_ref().filter(|_| info.kind == FileKind::Symlink);
        let kind = info.link_kind.filter(|_| info.kind == FileKind::Symlink).unwrap_or(info.kind);
        Self {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            kind: kind_name(kind),
            size: info.size,
            mode: info.mode & 0o777,
            permissions: permissions(info.kind, info.mode),
            owner: account(info.owner.as_deref(), info.uid),
            group: account(info.group.as_deref(), info.gid),
            modified_time: modified(info.modified_nanos),
            symlink_target: link.map(|target| resolve(&path, target)),
            metadata: info.metadata.pairs().clone(),
            path,
        }
    }
}

fn kind_name(kind: FileKind) -> Option<&'static str> {
    match kind {
        FileKind::File => Some("FILE_TYPE_FILE"),
        FileKind::Directory => Some("FILE_TYPE_DIRECTORY"),
        FileKind::Symlink => Some("FILE_TYPE_SYMLINK"),
        FileKind::Other => None,
    }
}

/// As Go's `os.FileMode` prints them.
fn permissions(kind: FileKind, mode: u32) -> String {
    let mut text = String::new();
    match kind {
        FileKind::Directory => text.push('d'),
        FileKind::Symlink => text.push('L'),
        FileKind::File | FileKind::Other => {}
    }
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (at, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> at) != 0 { letter } else { '-' });
    }
    text
}

/// What the sandbox calls an account; else its number.
fn account(name: Option<&str>, id: u32) -> String {
    name.map_or_else(|| id.to_string(), str::to_owned)
}

fn modified(nanos: i64) -> Option<String> {
    Timestamp::from_nanosecond(nanos.into()).ok().map(|time| time.to_string())
}

/// Where a link at `path` points, from the root.
fn resolve(path: &str, target: &GuestPath) -> String {
    let target = String::from_utf8_lossy(target.as_bytes());
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let joined = if target.starts_with('/') { target.into_owned() } else { format!("{parent}/{target}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    //! Entries in the SDKs' words.

    use serde_json::json;

    use super::*;
    use crate::agent::FileMetadata;

    fn path(text: &'static str) -> GuestPath {
        GuestPath::new(text).expect("a path")
    }

    fn info(kind: FileKind, mode: u32) -> FileInfo {
        FileInfo {
            path: path("x"),
            kind,
            size: 13,
            mode,
            uid: 1000,
            gid: 7,
            modified_nanos: 1_500_000_000,
            owner: Some("user".into()),
            group: None,
            link_target: None,
            link_kind: None,
            metadata: FileMetadata::new([("author".into(), "mish".into())]).expect("metadata"),
            sha256: None,
        }
    }

    #[test]
    fn an_entry_is_told_as_proto3_has_it() {
        let entry = EntryInfo::of(&path("/home/user/a.txt"), &info(FileKind::File, 0o100_644));
        let told = serde_json::to_value(&entry).expect("a message");
        let right = json!({
            "name": "a.txt", "type": "FILE_TYPE_FILE", "path": "/home/user/a.txt", "size": "13", "mode": 0o644,
            "permissions": "-rw-r--r--", "owner": "user", "group": "7", "modifiedTime": "1970-01-01T00:00:01.5Z",
            "metadata": {"author": "mish"},
        });
        assert_eq!(told, right);
    }

    #[test]
    fn a_link_has_the_kind_of_what_it_leads_to() {
        let link = |target: &'static str, link_kind| FileInfo {
            link_target: Some(path(target)),
            link_kind,
            ..info(FileKind::Symlink, 0o777)
        };
        let told = |target, kind| EntryInfo::of(&path("/a/b/link"), &link(target, kind));
        let entry = told("../c/./x", Some(FileKind::File));
        assert_eq!(entry.symlink_target.as_deref(), Some("/a/c/x"));
        assert_eq!((entry.kind, entry.permissions.as_str()), (Some("FILE_TYPE_FILE"), "Lrwxrwxrwx"));
        assert_eq!(told("/x", None).symlink_target.as_deref(), Some("/x"));
        assert_eq!(told("/x", None).kind, Some("FILE_TYPE_SYMLINK"), "it leads nowhere");
    }

    #[test]
    fn permissions_are_printed_as_go_does() {
        assert_eq!(permissions(FileKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(permissions(FileKind::Directory, 0o1777), "dtrwxrwxrwx");
        assert_eq!(permissions(FileKind::File, 0o4755), "urwxr-xr-x");
        assert_eq!(permissions(FileKind::File, 0), "----------");
    }
}
