//! Hashes of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::StoreError;
use super::manifest::FileFacts;

/// Length and SHA-256 of a file.
pub(super) fn facts(path: &Path) -> Result<FileFacts, StoreError> {
    let read = || -> io::Result<FileFacts> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0_u8; 1 << 20];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    hash.update(&buffer[..count]);
                    size += count as u64;
                }
            }
        }
        Ok(FileFacts { sha256: hex(&hash.finalize()), size })
    };
    read().map_err(StoreError::file("read", path))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
