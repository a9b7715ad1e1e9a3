//! SHA-256 of files, and keys made of named inputs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The SHA-256 of a file, in hexadecimal.
pub fn file(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// A cache key: the hash of everything a result depends on, in the order given.
#[derive(Default)]
pub struct Key {
    hasher: Sha256,
}

impl Key {
    /// Adds one input. Name and value are delimited, so that no two lists collide.
    pub fn add(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.hasher.update(format!("{}:{name}={}:", name.len(), value.len()));
        self.hasher.update(value);
        self
    }

    /// The key: 32 hexadecimal digits are plenty for a cache.
    pub fn finish(self) -> String {
        let mut key = hex(&self.hasher.finalize());
        key.truncate(32);
        key
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_where_one_input_ends() {
        let one = Key::default().add("a", "bc").add("d", "").finish();
        let other = Key::default().add("a", "b").add("d", "c").finish();
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
    }

    #[test]
    fn a_file_has_its_well_known_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(
            super::file(file.path()).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
