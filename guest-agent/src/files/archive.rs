//! Writes a directory as a tar archive: sorted, links as links, relative names.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// Archives everything below `root`, which the caller has opened as `dir` to know that it may.
///
/// What the user may not read, or what is neither file, directory nor link, is left out; what vanishes while
/// it is read is padded to the size it was announced with.
///
/// # Errors
/// When `sink` fails or a directory cannot be read.
pub fn write(dir: &File, root: &Path, sink: &mut impl Write) -> io::Result<()> {
    let mut archive = Builder::new(sink);
    append_header(&mut archive, Path::new("."), &dir.metadata()?, EntryType::Directory, 0)?;
    let mut unvisited = vec![PathBuf::new()];
    while let Some(below) = unvisited.pop() {
        let mut names: Vec<_> = match fs::read_dir(root.join(&below)) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect(),
            // The directory asked for was opened; a nested one may be closed to the user.
            Err(_) if !below.as_os_str().is_empty() => continue,
            Err(error) => return Err(error),
        };
        names.sort_unstable();
        for name in names {
            let relative = below.join(name);
            let full = root.join(&relative);
            let Ok(metadata) = full.symlink_metadata() else { continue };
            let shown = Path::new(".").join(&relative);
            if metadata.is_dir() {
                append_header(&mut archive, &shown, &metadata, EntryType::Directory, 0)?;
                unvisited.push(relative);
            } else if metadata.is_symlink() {
                let Ok(target) = fs::read_link(&full) else { continue };
                let mut header = header(&metadata, EntryType::Symlink, 0);
                archive.append_link(&mut header, &shown, target)?;
            } else if metadata.is_file() {
                append_file(&mut archive, &full, &shown)?;
            }
        }
    }
    archive.finish()
}

fn append_file(archive: &mut Builder<impl Write>, full: &Path, shown: &Path) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(full) else { return Ok(()) };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    let mut header = header(&metadata, EntryType::Regular, metadata.len());
    let exact = file.chain(io::repeat(0)).take(metadata.len());
    archive.append_data(&mut header, shown, exact)
}

fn append_header(
    archive: &mut Builder<impl Write>,
    shown: &Path,
    metadata: &Metadata,
    kind: EntryType,
    size: u64,
) -> io::Result<()> {
    let name = [shown.as_os_str().as_bytes(), b"/"].concat();
    archive.append_data(&mut header(metadata, kind, size), OsStr::from_bytes(&name), io::empty())
}

fn header(metadata: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(metadata.mode() & 0o7777);
    header.set_mtime(metadata.mtime().max(0) as u64);
    header.set_uid(metadata.uid().into());
    header.set_gid(metadata.gid().into());
    header
}
