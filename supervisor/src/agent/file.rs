//! A file of a guest's, as its agent describes it.

use rekindle_protocol::limits::{MAX_OWNER_BYTES, MAX_PATH_BYTES};
use rekindle_protocol::wire;
use serde::Serialize;

use super::digest::Digest;
use super::metadata::FileMetadata;
use super::path::GuestPath;

/// All permission bits there are.
const PERMISSIONS: u32 = 0o7777;

/// A bit that agents leave out of the permissions they are asked for.
const ASKED: u32 = 0o100_000;

/// Permission bits for [`UploadOptions::mode`](super::UploadOptions::mode) and
/// [`MkdirOptions::mode`](super::MkdirOptions::mode), where 0 is the default: no permissions at all are another number.
#[must_use]
pub fn permissions(asked: Option<u32>) -> u32 {
    asked.map_or(0, |bits| (bits & PERMISSIONS) | ASKED)
}

/// A file as stat(2) sees it inside the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    /// In listings the name, or of what is further below the path from the directory; elsewhere the path as it was
    /// asked for.
    pub path: GuestPath,
    /// Its kind.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of the content, nanoseconds since 1970.
    pub modified_nanos: i64,
    /// What the guest calls the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What the guest calls the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Where a symbolic link points, as it is written there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_target: Option<GuestPath>,
    /// What a symbolic link leads to in the end, where it leads anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_kind: Option<FileKind>,
    /// What is noted at it.
    #[serde(skip_serializing_if = "FileMetadata::is_empty")]
    pub metadata: FileMetadata,
    /// SHA-256 of the content, after an upload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

impl FileInfo {
    /// Checks the description of a path that was asked for. What the agent calls it does not matter.
    pub(super) fn of(path: &GuestPath, info: &wire::FileInfo) -> Result<Self, &'static str> {
        Self::checked(path.clone(), info)
    }

    /// Checks the description of an entry in a listing of so many levels.
    pub(crate) fn entry(info: &wire::FileInfo, depth: u32) -> Result<Self, &'static str> {
        let name = GuestPath::below(&info.path, depth).ok_or("an entry with an impossible name")?;
        Self::checked(name, info)
    }

    fn checked(path: GuestPath, info: &wire::FileInfo) -> Result<Self, &'static str> {
        let kind = known(info.kind)?.ok_or("a file of no known kind")?;
        let link_target = match &info.link_target {
            none if none.is_empty() => None,
            long if long.len() > MAX_PATH_BYTES => return Err("a link to an overlong path"),
            target => Some(GuestPath::told(target).map_err(|_| "a link to an impossible path")?),
        };
        Ok(Self {
            path,
            kind,
            size: info.size,
            mode: info.mode & PERMISSIONS,
            uid: info.uid,
            gid: info.gid,
            modified_nanos: info.modified_nanos,
            owner: owner(&info.owner)?,
            group: owner(&info.group)?,
            link_target,
            link_kind: match known(info.link_kind)? {
                Some(FileKind::Symlink) => return Err("a link that leads to a link in the end"),
                leads_to => leads_to.filter(|_| kind == FileKind::Symlink),
            },
            metadata: FileMetadata::told(&info.metadata).map_err(|_| "impossible metadata")?,
            // Made by the host, for what it has moved itself.
            sha256: None,
        })
    }
}

/// A kind; `None` where none is told.
fn known(kind: i32) -> Result<Option<FileKind>, &'static str> {
    use wire::FileKind as Kind;
    Ok(match Kind::try_from(kind) {
        Ok(Kind::File) => Some(FileKind::File),
        Ok(Kind::Directory) => Some(FileKind::Directory),
        Ok(Kind::Symlink) => Some(FileKind::Symlink),
        Ok(Kind::Other) => Some(FileKind::Other),
        Ok(Kind::Unspecified) => None,
        Err(_) => return Err("a file of no known kind"),
    })
}

fn owner(name: &str) -> Result<Option<String>, &'static str> {
    if name.len() > MAX_OWNER_BYTES || name.chars().any(char::is_control) {
        return Err("an owner with an impossible name");
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_is_kept_of_a_listing_keeps_nothing_of_its_frame() {
        let frame = Bytes::from([&b"name"[..], b"/target", &[0; 1000]].concat());
        let info = wire::FileInfo {
            path: frame.slice(..4),
            kind: wire::FileKind::Symlink.into(),
            link_target: frame.slice(4..11),
            ..wire::FileInfo::default()
        };
        let kept = FileInfo::entry(&info, 1).expect("an entry");
        drop(info);
        assert_eq!(kept.path.as_bytes(), b"name");
        assert_eq!(kept.link_target.as_ref().map(GuestPath::as_bytes), Some(&b"/target"[..]));
        assert!(frame.is_unique(), "the frame is freed with the message");
    }
}
