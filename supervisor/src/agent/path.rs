//! A path inside a guest: any bytes but NUL, bounded. Checked once, at the edge; it names nothing on the host.

use std::fmt;

use bytes::Bytes;
use rekindle_protocol::limits::MAX_PATH_BYTES;
use serde::{Serialize, Serializer};

use crate::host::untrusted::printable;

/// Why bytes are no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// There are none.
    #[error("a path must not be empty")]
    Empty,
    /// There are too many.
    #[error("a path of {length} bytes exceeds the limit of {MAX_PATH_BYTES}")]
    TooLong {
        /// How many.
        length: usize,
    },
    /// One of them is NUL.
    #[error("a path must not contain a NUL byte")]
    Nul,
}

/// A path inside a guest: absolute, or relative to the user's home. Not always text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuestPath(Bytes);

impl GuestPath {
    /// Checks a path.
    ///
    /// # Errors
    /// See [`InvalidPath`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, InvalidPath> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(InvalidPath::Empty);
        }
        if bytes.len() > MAX_PATH_BYTES {
            return Err(InvalidPath::TooLong { length: bytes.len() });
        }
        if bytes.contains(&0) {
            return Err(InvalidPath::Nul);
        }
        Ok(Self(bytes))
    }

    /// Checks a path that an agent tells, in a copy of its own: decoded messages share the memory of their frame,
    /// and one short name must not keep a whole frame for as long as it is kept.
    pub(super) fn told(bytes: &[u8]) -> Result<Self, InvalidPath> {
        // The length is checked before there is a copy.
        if bytes.len() > MAX_PATH_BYTES {
            return Err(InvalidPath::TooLong { length: bytes.len() });
        }
        Self::new(Bytes::copy_from_slice(bytes))
    }

    /// Checks the path of an entry from the directory that was listed, as an agent tells it: at most so many names.
    pub(crate) fn below(path: &[u8], depth: u32) -> Option<Self> {
        let mut names = 0_u32;
        for name in path.split(|byte| *byte == b'/') {
            names = names.saturating_add(1);
            if name.is_empty() || name == b"." || name == b".." || names > depth {
                return None;
            }
        }
        Self::told(path).ok()
    }

    /// This path below a directory.
    #[must_use]
    pub fn within(&self, directory: &Self) -> Option<Self> {
        let directory = directory.0.strip_suffix(b"/").unwrap_or(&directory.0);
        Self::new([directory, b"/", &self.0].concat()).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, for a request.
    pub(super) fn to_wire(&self) -> Bytes {
        self.0.clone()
    }
}

impl std::str::FromStr for GuestPath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        Self::new(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// For people: what is no text is replaced, what is not printable is spelled out.
impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&String::from_utf8_lossy(&self.0), usize::MAX))
    }
}

/// For programs: a string where it is text, otherwise a list of its bytes, so that nothing is lost.
impl Serialize for GuestPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(self.0.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_a_kernel_would_take_are_a_path() {
        assert_eq!(GuestPath::new(""), Err(InvalidPath::Empty));
        assert_eq!(GuestPath::new("a\0b"), Err(InvalidPath::Nul));
        assert!(GuestPath::new(vec![b'a'; MAX_PATH_BYTES]).is_ok());
        assert!(GuestPath::new(vec![b'a'; MAX_PATH_BYTES + 1]).is_err());
        assert!(GuestPath::new(&b"\xff\n "[..]).is_ok());
    }

    #[test]
    fn an_entry_never_leads_out_of_its_directory() {
        for name in ["", ".", "..", "a/b", "/", "../x"] {
            assert_eq!(GuestPath::below(name.as_bytes(), 1), None, "{name:?}");
        }
        assert!(GuestPath::below(b"...", 1).is_some());
        for path in ["/a", "a/", "a//b", "a/..", "../a", "a/./b", "a/b/c", "a/\0"] {
            assert_eq!(GuestPath::below(path.as_bytes(), 2), None, "{path:?}");
        }
        assert!(GuestPath::below(b"a/...", 2).is_some());
    }

    #[test]
    fn paths_that_are_no_text_lose_nothing_in_json() {
        let json = |bytes: &'static [u8]| serde_json::to_string(&GuestPath::new(bytes).unwrap()).unwrap();
        assert_eq!(json(b"/tmp/a b"), "\"/tmp/a b\"");
        assert_eq!(json(b"\xffa"), "[255,97]");
    }
}
