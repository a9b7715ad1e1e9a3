//! Gives large blocks of zeros back to the file system.
//!
//! A guest that has booted leaves much memory it once used and cleared; it reads the same as holes. Only whole large
//! pages are given back: a file system in memory keeps the others in one piece, and a clone then maps them at once
//! (docs/decisions/0076-snapshots-in-large-pages.md).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::host::scratch::next_data;

/// A large page.
const BLOCK: usize = 2 << 20;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Turns every block of zeros into a hole; returns how many bytes that freed. The content stays the same.
pub(super) fn punch_zeros(file: &File) -> io::Result<u64> {
    let mut freed = 0;
    let mut buffer = vec![0_u8; BLOCK];
    let mut at = 0;
    while let Some((start, end)) = next_data(file, at)? {
        let mut position = start - start % BLOCK as u64;
        while position < end {
            let count = file.read_at(&mut buffer, position)?;
            if count == 0 {
                break;
            }
            // A comparison of slices is the C library's, fast in every build.
            if buffer[..count] == ZEROS[..] {
                match punch(file, position, BLOCK as u64) {
                    Ok(()) => freed += BLOCK as u64,
                    // A file system without holes: the zeros stay.
                    Err(Errno::EOPNOTSUPP) => return Ok(freed),
                    Err(error) => return Err(error.into()),
                }
            }
            position += BLOCK as u64;
        }
        // The last block may end behind this piece of data, and is done.
        at = position;
    }
    Ok(freed)
}

fn punch(file: &File, offset: u64, length: u64) -> nix::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| Errno::EFBIG);
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, flags, signed(offset)?, signed(length)?)
}
