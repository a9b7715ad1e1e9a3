//! A small file system in memory, for tests of disks that fill up. Needs root.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// A mounted file system, gone with this.
#[derive(Debug)]
pub struct SmallDisk {
    dir: tempfile::TempDir,
    mib: u64,
}

impl SmallDisk {
    /// Mounts one of this size.
    ///
    /// # Errors
    /// Why this machine cannot, for a skip.
    ///
    /// # Panics
    /// When there is no directory to mount it on.
    pub fn mount(mib: u64) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let size = format!("size={mib}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output();
        let done = mount.map_err(|error| format!("no mount: {error}"))?;
        match done.status.success() {
            true => Ok(Self { dir, mib }),
            false => {
                Err(format!("a file system cannot be mounted: {}", String::from_utf8_lossy(&done.stderr)))
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes until the kernel refuses, as another program of the host would.
    ///
    /// # Panics
    /// When nothing can be written, or everything.
    pub fn fill(&self) {
        let mut filler = File::create(self.path().join("filler")).expect("a file");
        let block = vec![0xff; 1 << 20];
        let full = (0..self.mib * 2).any(|_| filler.write_all(&block).is_err());
        assert!(full, "it holds more than its size");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}
