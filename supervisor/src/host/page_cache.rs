//! The host's page cache: whether parts of a file are in it, and bringing them in without waiting.
//!
//! Called by `vm` before a restore. The mapping itself is made by the monitor and cannot be filled from
//! outside, but what it will read can be on its way from the disk before the monitor has even started.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Places looked at before deciding whether anything has to be read.
const LOOKS: usize = 24;

/// Starts to read the parts of a file that are not in memory, if a look says that some are not. Returns how
/// many bytes were asked for; it does not wait for them.
///
/// # Errors
/// When the file cannot be looked at.
pub fn bring_in(file: &File, parts: &[(u64, u64)]) -> io::Result<u64> {
    if is_hot(file, parts)? {
        return Ok(0);
    }
    let mut asked = 0;
    for (start, length) in parts {
        fadvise(file, *start, NonZeroU64::new(*length), Advice::WillNeed)?;
        asked += length;
    }
    Ok(asked)
}

/// Whether every place that is looked at is in memory.
fn is_hot(file: &File, parts: &[(u64, u64)]) -> io::Result<bool> {
    // The largest step that still gives so many looks.
    let step = (parts.len() / LOOKS).max(1);
    for (start, length) in parts.iter().step_by(step) {
        let mut byte = [0];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], start + length / 2, ReadWriteFlags::NOWAIT) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(false),
            // A file system that is in memory itself.
            Err(Errno::OPNOTSUPP) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    //! Nothing is asked for that is there already.

    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_in_memory_is_not_read_again_and_what_is_not_is_asked_for() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 4 << 20]).unwrap();
        let file = file.as_file();
        file.sync_all().unwrap();
        let parts = [(0, 1 << 20), (3 << 20, 1 << 20)];
        assert_eq!(bring_in(file, &parts).unwrap(), 0, "it was written just now");
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let asked = bring_in(file, &parts).unwrap();
        // A file system in memory has no other place.
        assert!(asked == 2 << 20 || asked == 0, "{asked}");
    }

    #[test]
    fn no_parts_are_no_work() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(bring_in(&file, &[]).unwrap(), 0);
    }
}
