//! Files put into the host's page cache, and out of it, and a look at which of the two it is.
//!
//! Only the files that are measured are thrown out: emptying the whole cache would also slow down whatever
//! else the machine is doing, and needs root. The kernel keeps pages that some process has mapped, so a cold
//! sample is taken only when no clone runs; that it worked is looked at and not assumed.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Places looked at in one file.
const PROBES: u64 = 64;
/// Of a hot file at least, and of a cold file at most, this share of the places.
const CLEAR: f64 = 0.9;
/// How often a file is thrown out before it counts as one that stays, and the time between.
const TRIES: usize = 10;
const BETWEEN: Duration = Duration::from_millis(100);

/// Reads the files, holes left out.
///
/// # Errors
/// When one cannot be read.
pub fn warm(paths: &[PathBuf]) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in paths {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        for (start, end) in written(&file)? {
            let mut at = start;
            while at < end {
                let want = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
                match file.read_at(&mut buffer[..want], at)? {
                    0 => break,
                    n => at += n as u64,
                }
            }
        }
    }
    Ok(())
}

/// Throws the files out, and makes sure that they are. What somebody is just reading stays, so there is more than one
/// try. Blocks.
///
/// # Errors
/// When most of a file stays in memory, as on a file system that has no other place.
pub fn evict(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        // What is not on the disk yet cannot be let go of.
        rustix::fs::fdatasync(&file).or_else(|error| match error {
            Errno::INVAL | Errno::ROFS => Ok(()),
            other => Err(other),
        })?;
        let mut share = 1.0;
        for _ in 0..TRIES {
            fadvise(&file, 0, None, Advice::DontNeed)?;
            share = resident(path)?;
            if share <= 1.0 - CLEAR {
                break;
            }
            std::thread::sleep(BETWEEN);
        }
        ensure!(
            share <= 1.0 - CLEAR,
            "{} stays in memory: {:.0} % of it is still there",
            path.display(),
            share * 100.0
        );
    }
    Ok(())
}

/// The share of a file's written parts that is in memory, by a look at some places. What is not in memory there the
/// kernel may fetch, so a second look sees more.
///
/// # Errors
/// When it cannot be read.
pub fn resident(path: &Path) -> Result<f64> {
    let file = File::open(path)?;
    // A look must not make the kernel read what lies behind it.
    fadvise(&file, 0, None, Advice::Random)?;
    let parts = written(&file)?;
    let total: u64 = parts.iter().map(|(start, end)| end - start).sum();
    let step = (total / PROBES).max(4096);
    let (mut seen, mut looked, mut wanted, mut passed) = (0_u32, 0_u32, step / 2, 0_u64);
    for (start, end) in parts {
        while wanted < passed + (end - start) {
            looked += 1;
            seen += u32::from(is_resident(&file, start + (wanted - passed))?);
            wanted += step;
        }
        passed += end - start;
    }
    // A file smaller than one step is looked at by its first byte.
    if looked == 0 {
        return Ok(f64::from(u8::from(total > 0 && is_resident(&file, 0)?)));
    }
    Ok(f64::from(seen) / f64::from(looked))
}

fn is_resident(file: &File, at: u64) -> Result<bool> {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error).context("this file system does not tell what is in memory"),
    }
}

/// The written parts of a file.
fn written(file: &File) -> io::Result<Vec<(u64, u64)>> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(parts),
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        parts.push((start, at));
    }
}

#[cfg(test)]
mod tests {
    //! On a real file, where the file system can let go of it.

    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_goes_into_memory_and_out_of_it() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 8 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let paths = [file.path().to_owned()];
        // A file system in memory has no other place, and says so. That it is gone has been looked at: a second look
        // would find the pages that the first one made the kernel fetch.
        if evict(&paths).is_ok() {
            warm(&paths).unwrap();
        }
        assert!(resident(file.path()).unwrap() > 0.9);
    }
}
