//! Host names, and the patterns that rules are written with. Pure.
//!
//! Both are read once, into lower case and without a final dot, and compared as they are from then on. What could be
//! taken for an address is no name, in any spelling that a resolver understands: `127.1`, `0x7f.1`, `2130706433`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most bytes of a name, the final dot left out.
const MAX_NAME: usize = 253;
/// Most bytes of a label.
const MAX_LABEL: usize = 63;

/// The name of a host: at least two labels, lower case, no final dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostName(String);

/// Why a text is no name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Empty, or nothing but a dot.
    #[error("it is empty")]
    Empty,
    /// More than 253 bytes, or a label of more than 63.
    #[error("it is too long")]
    TooLong,
    /// A byte that names do not have.
    #[error("only letters, digits, hyphens and underscores are allowed between dots")]
    Character,
    /// An address, however it is spelled.
    #[error("it is an address, not a name")]
    Address,
    /// Without a dot it would depend on search lists what it means.
    #[error("it has no dot")]
    SingleLabel,
    /// A pattern such as `*.com`.
    #[error("a wildcard needs at least two labels after `*.`")]
    TooWide,
}

impl HostName {
    /// Reads a name.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if text.len() > MAX_NAME {
            return Err(InvalidName::TooLong);
        }
        let mut labels = 0;
        for label in text.split('.') {
            labels += 1;
            if label.len() > MAX_LABEL {
                return Err(InvalidName::TooLong);
            }
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if label.is_empty()
                || label.starts_with('-')
                || label.ends_with('-')
                || !label.bytes().all(inside)
            {
                return Err(InvalidName::Character);
            }
        }
        let name = text.to_ascii_lowercase();
        if is_number(name.rsplit('.').next().unwrap_or_default()) {
            return Err(InvalidName::Address);
        }
        if labels < 2 {
            return Err(InvalidName::SingleLabel);
        }
        Ok(Self(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a resolver would take a text that ends in this label for an IPv4 address.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(rest) => rest.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// What the names of a rule look like: one name, or all names below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NamePattern {
    /// This name alone.
    Exact(HostName),
    /// `*.name`: every name below, however deep; not the name itself.
    Below(HostName),
}

impl NamePattern {
    /// Reads `name` or `*.name`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        match text.strip_prefix("*.") {
            None => HostName::parse(text).map(Self::Exact),
            Some(parent) => match HostName::parse(parent) {
                Err(InvalidName::SingleLabel) => Err(InvalidName::TooWide),
                parent => parent.map(Self::Below),
            },
        }
    }

    /// Whether a name is meant.
    #[must_use]
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(parent) => {
                name.0.strip_suffix(&parent.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        }
    }

    /// Orders patterns that match one name: the one that says more about it is greater.
    pub(super) fn specificity(&self) -> (bool, usize) {
        match self {
            Self::Exact(name) => (true, name.0.len()),
            Self::Below(parent) => (false, parent.0.len()),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}

#[cfg(test)]
mod tests;
