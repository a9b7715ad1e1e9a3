//! Describes a file for the wire.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use bytes::Bytes;
use nix::NixPath;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use rekindle_protocol::wire::{FileInfo, FileKind};

/// Describes an opened file.
///
/// # Errors
/// What the system says.
pub fn of_open(path: Bytes, file: impl AsFd) -> nix::Result<FileInfo> {
    Ok(describe(path, &fstat(file)?))
}

/// Describes `name` in `dir`; a link is described itself, with where it points.
///
/// # Errors
/// What the system says.
pub fn of_entry<N: NixPath + ?Sized>(path: Bytes, dir: impl AsFd, name: &N) -> nix::Result<FileInfo> {
    let mut info = describe(path, &fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)?);
    if info.kind == FileKind::Symlink as i32 {
        info.link_target = readlinkat(&dir, name)?.into_vec().into();
    }
    Ok(info)
}

fn describe(path: Bytes, stat: &FileStat) -> FileInfo {
    let kind = match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Directory,
        SFlag::S_IFLNK => FileKind::Symlink,
        _ => FileKind::Other,
    };
    FileInfo {
        path,
        kind: kind as i32,
        size: stat.st_size.max(0) as u64,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified_nanos: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec),
        link_target: Bytes::new(),
        checksum: 0,
    }
}
