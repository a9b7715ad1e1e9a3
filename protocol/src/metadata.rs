//! What may be noted at a file: the one rule by which both sides check it. It reads and writes nothing.

use crate::limits::{MAX_METADATA_BYTES, MAX_METADATA_NAME_BYTES, MAX_METADATA_PAIRS};
use crate::wire::FileMetadata;

/// Why metadata is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// A name that is none.
    #[error(
        "the name of metadata has 1 to {MAX_METADATA_NAME_BYTES} printable ASCII characters and no spaces"
    )]
    Name,
    /// A value that is no plain text.
    #[error("the value of metadata is text without control characters")]
    Value,
    /// Two values for one name.
    #[error("a name of metadata is given twice")]
    Twice,
    /// Too many pairs.
    #[error("a file has at most {MAX_METADATA_PAIRS} pairs of metadata")]
    Pairs,
    /// Too many bytes.
    #[error("the metadata of a file has at most {MAX_METADATA_BYTES} bytes, names and values together")]
    Bytes,
}

/// Whether something can be the name of metadata.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=MAX_METADATA_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether something can be a value.
#[must_use]
pub fn is_value(value: &str) -> bool {
    value.len() <= MAX_METADATA_BYTES && !value.chars().any(char::is_control)
}

/// Checks all of a file's metadata.
///
/// # Errors
/// See [`InvalidMetadata`].
pub fn check(pairs: &[FileMetadata]) -> Result<(), InvalidMetadata> {
    if pairs.len() > MAX_METADATA_PAIRS {
        return Err(InvalidMetadata::Pairs);
    }
    if pairs.iter().map(|pair| pair.name.len() + pair.value.len()).sum::<usize>() > MAX_METADATA_BYTES {
        return Err(InvalidMetadata::Bytes);
    }
    for (at, pair) in pairs.iter().enumerate() {
        if !is_name(&pair.name) {
            return Err(InvalidMetadata::Name);
        }
        if !is_value(&pair.value) {
            return Err(InvalidMetadata::Value);
        }
        if pairs[..at].iter().any(|other| other.name == pair.name) {
            return Err(InvalidMetadata::Twice);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> FileMetadata {
        FileMetadata { name: name.into(), value: value.into() }
    }

    #[test]
    fn only_bounded_text_under_plain_names_is_metadata() {
        assert_eq!(check(&[pair("author", "mish"), pair("a.b-c_d", ""), pair("x", "grün 1")]), Ok(()));
        for name in ["", "a b", "a\n", "ä", "a\0", &"n".repeat(MAX_METADATA_NAME_BYTES + 1)] {
            assert_eq!(check(&[pair(name, "")]), Err(InvalidMetadata::Name), "{name:?}");
        }
        assert_eq!(check(&[pair("a", "x\ny")]), Err(InvalidMetadata::Value));
        assert_eq!(check(&[pair("a", "1"), pair("a", "2")]), Err(InvalidMetadata::Twice));
        let many: Vec<_> = (0..=MAX_METADATA_PAIRS).map(|n| pair(&n.to_string(), "")).collect();
        assert_eq!(check(&many), Err(InvalidMetadata::Pairs));
        assert_eq!(check(&many[1..]), Ok(()));
        assert_eq!(check(&[pair("a", &"v".repeat(MAX_METADATA_BYTES))]), Err(InvalidMetadata::Bytes));
        assert_eq!(check(&[pair("a", &"v".repeat(MAX_METADATA_BYTES - 1))]), Ok(()));
    }
}
