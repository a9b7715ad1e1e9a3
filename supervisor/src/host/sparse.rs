//! Files with holes: where their data is, and zeros given back to the file system.
//!
//! A guest that has booted leaves much memory, and blocks of its disk, that it once used and cleared; they read the
//! same as holes. A file system of large pages writes zeros around the little that a formatter wrote. Called by
//! `store` when a snapshot is committed, and for scratch disks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek};

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;
static ZEROS: [u8; LARGE] = [0; LARGE];

/// How much must be zero to become a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    /// For a file that is copied: the fewer bytes the better.
    Page,
    /// For one that is mapped: a file system in memory keeps the other large pages in one piece, and a clone maps
    /// them at once (docs/performance.md).
    Large,
}

impl Grain {
    fn bytes(self) -> usize {
        match self {
            Self::Page => PAGE,
            Self::Large => LARGE,
        }
    }
}

/// The next written extent at or after `from`.
pub(super) fn next_data(file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
    let offset = |value: i64| u64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
    let from = i64::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?;
    let start = match lseek(file, from, Whence::SeekData) {
        Ok(start) => start,
        Err(Errno::ENXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = lseek(file, start, Whence::SeekHole)?;
    Ok(Some((offset(start)?, offset(end)?)))
}

/// Turns every grain of zeros into a hole; returns how many bytes that freed. The content stays the same.
pub(crate) fn punch_zeros(file: &File, grain: Grain) -> io::Result<u64> {
    let mut freed = 0;
    let mut buffer = vec![0_u8; LARGE];
    let mut at = 0;
    while let Some((start, end)) = next_data(file, at)? {
        let mut position = start - start % LARGE as u64;
        while position < end {
            let count = file.read_at(&mut buffer, position)?;
            if count == 0 {
                break;
            }
            for (first, length) in zero_runs(&buffer[..count], grain.bytes()) {
                match punch(file, position + first as u64, length as u64) {
                    Ok(()) => freed += length as u64,
                    // A file system without holes: the zeros stay.
                    Err(Errno::EOPNOTSUPP) => return Ok(freed),
                    Err(error) => return Err(error.into()),
                }
            }
            position += LARGE as u64;
        }
        // The last large page may end behind this piece of data, and is done.
        at = position;
    }
    Ok(freed)
}

/// Runs of whole grains of zeros, as offset and length.
fn zero_runs(bytes: &[u8], grain: usize) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, piece) in bytes.chunks_exact(grain).enumerate() {
        // A comparison of slices is the C library's, fast in every build.
        if *piece != ZEROS[..grain] {
            continue;
        }
        let offset = index * grain;
        match runs.last_mut() {
            Some((first, length)) if *first + *length == offset => *length += grain,
            _ => runs.push((offset, grain)),
        }
    }
    runs
}

fn punch(file: &File, offset: u64, length: u64) -> nix::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| Errno::EFBIG);
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, flags, signed(offset)?, signed(length)?)
}
