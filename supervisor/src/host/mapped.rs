//! A file in the memory of another process: where it is, which of its pages the process has, and pages copied for
//! it ahead of the moment it writes to them.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Set in an entry of a page map for a page that is there.
const PRESENT: u64 = 1 << 63;
/// Set for a page that is the file's own, and not a copy.
const OF_FILE: u64 = 1 << 61;
/// Entries of a page map read at once.
const ENTRIES: usize = 4096;
/// Places in another process's memory that the kernel takes in one call.
const MOST_PLACES: usize = 1024;

/// One mapping of a file in one process.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapped {
    pid: u32,
    start: u64,
    end: u64,
    offset: u64,
}

impl Mapped {
    /// Every mapping of a file in a process and in those that it has started.
    ///
    /// # Errors
    /// When the file or a process cannot be looked at.
    pub fn find(pid: u32, file: &Path) -> io::Result<Vec<Self>> {
        // Numbers of inodes alone are not enough: those of another file system's program could be the same.
        let facts = fs::metadata(file)?;
        let (major, minor) = (rustix::fs::major(facts.dev()), rustix::fs::minor(facts.dev()));
        let (device, inode) = (format!("{major:02x}:{minor:02x}"), facts.ino());
        let mut found = Vec::new();
        let mut family = vec![pid];
        while let Some(pid) = family.pop() {
            let proc = Path::new("/proc").join(pid.to_string());
            for task in fs::read_dir(proc.join("task"))? {
                let children = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
                family.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
            let maps = fs::read_to_string(proc.join("maps"))?;
            found.extend(maps.lines().filter_map(|line| Self::read(pid, line, &device, inode)));
        }
        Ok(found)
    }

    /// Reads a line of `/proc/<pid>/maps`, if it is about this inode of this device.
    fn read(pid: u32, line: &str, device: &str, inode: u64) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        if words.next()? != device || words.next()?.parse() != Ok(inode) {
            return None;
        }
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { pid, start: number(start)?, end: number(end)?, offset: number(offset)? })
    }

    /// Names every page that the process has: its number in the file, and whether it is a copy of the process's
    /// own.
    ///
    /// # Errors
    /// When its page map cannot be read.
    pub fn pages(&self, mut name: impl FnMut(u64, bool)) -> io::Result<()> {
        let map = File::open(format!("/proc/{}/pagemap", self.pid))?;
        let mut buffer = vec![0; ENTRIES * 8];
        let pages = (self.end - self.start) / PAGE;
        let mut page = 0;
        while page < pages {
            let wanted = usize::try_from(pages - page).map_or(ENTRIES, |left| left.min(ENTRIES));
            let part = &mut buffer[..wanted * 8];
            map.read_exact_at(part, (self.start / PAGE + page) * 8)?;
            for entry in part.chunks_exact(8) {
                let bits = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
                if bits & PRESENT != 0 {
                    name(self.offset / PAGE + page, bits & OF_FILE == 0);
                }
                page += 1;
            }
        }
        Ok(())
    }

    /// Gives the process copies of its own of those of these pages that the mapping holds, as if it had written to
    /// each of them what is there already. Nothing may write to them meanwhile: the guest is paused.
    ///
    /// # Errors
    /// When its memory may not be touched.
    pub fn copy(&self, pages: &[u64]) -> io::Result<()> {
        let place = |page: &u64| {
            let base = page.checked_mul(PAGE)?.checked_sub(self.offset)?.checked_add(self.start)?;
            let base = usize::try_from(base).ok().filter(|_| base < self.end)?;
            Some(RemoteIoVec { base, len: 1 })
        };
        let places: Vec<RemoteIoVec> = pages.iter().filter_map(place).collect();
        let pid = Pid::from_raw(i32::try_from(self.pid).map_err(io::Error::other)?);
        let mut bytes = [0; MOST_PLACES];
        for places in places.chunks(MOST_PLACES) {
            let bytes = &mut bytes[..places.len()];
            let read = process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], places)?;
            let written = process_vm_writev(pid, &[IoSlice::new(bytes)], places)?;
            if (read, written) != (places.len(), places.len()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
