//! What is noted at a file: bounded pairs of text. Checked once, at the edge, by the protocol's own rule.

use std::collections::BTreeMap;

use rekindle_protocol::metadata::{self, InvalidMetadata};
use rekindle_protocol::wire;
use serde::Serialize;

/// The metadata of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FileMetadata(BTreeMap<String, String>);

impl FileMetadata {
    /// Checks what a caller wants to note.
    ///
    /// # Errors
    /// See [`InvalidMetadata`].
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, InvalidMetadata> {
        let pairs = pairs.into_iter().map(|(name, value)| wire::FileMetadata { name, value });
        Self::told(&pairs.collect::<Vec<_>>())
    }

    /// Checks what an agent tells.
    pub(super) fn told(pairs: &[wire::FileMetadata]) -> Result<Self, InvalidMetadata> {
        metadata::check(pairs)?;
        Ok(Self(pairs.iter().map(|pair| (pair.name.clone(), pair.value.clone())).collect()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, by name.
    #[must_use]
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The pairs, for a request.
    pub(super) fn to_wire(&self) -> Vec<wire::FileMetadata> {
        let pair = |(name, value): (&String, &String)| wire::FileMetadata {
            name: name.clone(),
            value: value.clone(),
        };
        self.0.iter().map(pair).collect()
    }
}
