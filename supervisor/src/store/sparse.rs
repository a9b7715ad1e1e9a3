//! Gives the blocks of zero pages back to the file system.
//!
//! A guest that has booted leaves many pages it once used and cleared; they read the same as holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::host::scratch::next_data;

const PAGE: usize = 4096;
const ZEROS: [u8; PAGE] = [0; PAGE];

/// Turns every page of zeros into a hole; returns how many bytes that freed. The content stays the same.
pub(super) fn punch_zeros(file: &File) -> io::Result<u64> {
    let mut freed = 0;
    let mut buffer = vec![0_u8; 256 * PAGE];
    let mut at = 0;
    while let Some((start, end)) = next_data(file, at)? {
        let mut position = start - start % PAGE as u64;
        while position < end {
            let count = file.read_at(&mut buffer, position)?;
            if count == 0 {
                break;
            }
            for (first, length) in zero_runs(&buffer[..count]) {
                match punch(file, position + first as u64, length as u64) {
                    Ok(()) => freed += length as u64,
                    // A file system without holes: the zeros stay.
                    Err(Errno::EOPNOTSUPP) => return Ok(freed),
                    Err(error) => return Err(error.into()),
                }
            }
            position += count as u64;
        }
        at = end;
    }
    Ok(freed)
}

/// Runs of whole zero pages, as offset and length.
fn zero_runs(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in bytes.chunks_exact(PAGE).enumerate() {
        // A comparison of slices is the C library's, fast in every build.
        if page != ZEROS.as_slice() {
            continue;
        }
        let offset = index * PAGE;
        match runs.last_mut() {
            Some((first, length)) if *first + *length == offset => *length += PAGE,
            _ => runs.push((offset, PAGE)),
        }
    }
    runs
}

fn punch(file: &File, offset: u64, length: u64) -> nix::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| Errno::EFBIG);
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, flags, signed(offset)?, signed(length)?)
}
