//! One exchange as it is written: what finds it again, and the answer. Pure.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Digits of a digest.
const DIGITS: usize = 64;

/// What an answer is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The method.
    pub method: String,
    /// `http` or `https`.
    pub scheme: String,
    /// The host, in lower case.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Path and query, as they were sent.
    pub target: String,
    /// The part of it that was asked for (`Range`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// SHA-256 of the request's body.
    pub request_sha256: String,
}

/// One exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it ended.
    pub time: String,
    /// What finds it.
    #[serde(flatten)]
    pub key: Key,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// The answer's status.
    pub status: u16,
    /// Its headers, but for those of the connection and those that open sessions.
    pub headers: Vec<(String, String)>,
    /// SHA-256 of its body, which is the name of a file.
    pub sha256: String,
    /// Bytes of its body.
    pub bytes: u64,
}

impl Entry {
    /// Whether it can be what was written here: its digest becomes a path.
    pub(super) fn is_sound(&self) -> bool {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        self.sha256.len() == DIGITS && self.sha256.bytes().all(digit) && (200..600).contains(&self.status)
    }
}

/// SHA-256 of all that was given to it, in hexadecimal.
#[must_use]
pub fn digest_of(hasher: Sha256) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(DIGITS);
    for byte in hasher.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
