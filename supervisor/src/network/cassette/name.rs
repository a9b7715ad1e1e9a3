//! The name of a cassette, which is a directory's as well. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most bytes of it.
const MAX_NAME: usize = 63;

/// 1 to 63 lower-case letters, digits and dashes; no dash at its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CassetteName(String);

/// It is not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cassette's name has 1 to 63 of a-z, 0-9 and `-`, and does not begin with a dash")]
pub struct InvalidCassetteName;

impl CassetteName {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CassetteName {
    type Err = InvalidCassetteName;

    fn from_str(text: &str) -> Result<Self, InvalidCassetteName> {
        let inside = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let fits = (1..=MAX_NAME).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(inside);
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidCassetteName) }
    }
}

impl TryFrom<String> for CassetteName {
    type Error = InvalidCassetteName;

    fn try_from(text: String) -> Result<Self, InvalidCassetteName> {
        text.parse()
    }
}

impl From<CassetteName> for String {
    fn from(name: CassetteName) -> Self {
        name.0
    }
}

impl fmt::Display for CassetteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
