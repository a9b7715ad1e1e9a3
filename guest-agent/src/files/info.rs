//! Describes a file for the wire.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use rekindle_protocol::wire::{FileInfo, FileKind};

use crate::exec::AccountNames;
use crate::files::metadata::Attributes;

/// Describes an opened file.
///
/// # Errors
/// What the system says.
pub fn of_open(path: Bytes, file: impl AsFd, names: &AccountNames) -> nix::Result<FileInfo> {
    let mut info = describe(path, &fstat(&file)?, names);
    if has_metadata(&info) {
        info.metadata = Attributes::of_open(&file).map(|attributes| attributes.read()).unwrap_or_default();
    }
    Ok(info)
}

/// Describes `name` in `dir`; a link is described itself, with where it points and what it leads to.
///
/// # Errors
/// What the system says.
pub fn of_entry(path: Bytes, dir: impl AsFd, name: &CStr, names: &AccountNames) -> nix::Result<FileInfo> {
    let mut info = describe(path, &fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?, names);
    if info.kind == FileKind::Symlink as i32 {
        info.link_target = readlinkat(&dir, name)?.into_vec().into();
        info.link_kind = leads_to(&dir, name) as i32;
    } else if has_metadata(&info) {
        let attributes = Attributes::of_entry(&dir, name);
        info.metadata = attributes.map(|attributes| attributes.read()).unwrap_or_default();
    }
    Ok(info)
}

/// What a link leads to in the end, for all the user can see.
fn leads_to(dir: impl AsFd, name: &CStr) -> FileKind {
    // Not by the magic links in `/proc`, which would lead into the agent itself.
    let how =
        OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let target = openat2(dir, name, how).and_then(fstat);
    target.map_or(FileKind::Unspecified, |stat| kind(&stat))
}

/// Only these can have attributes of the user's.
fn has_metadata(info: &FileInfo) -> bool {
    info.kind == FileKind::File as i32 || info.kind == FileKind::Directory as i32
}

fn kind(stat: &FileStat) -> FileKind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Directory,
        SFlag::S_IFLNK => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn describe(path: Bytes, stat: &FileStat, names: &AccountNames) -> FileInfo {
    FileInfo {
        path,
        kind: kind(stat) as i32,
        size: stat.st_size.max(0) as u64,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified_nanos: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec),
        link_target: Bytes::new(),
        checksum: 0,
        owner: names.user(stat.st_uid),
        group: names.group(stat.st_gid),
        link_kind: FileKind::Unspecified as i32,
        metadata: Vec::new(),
    }
}
