//! What goes wrong with a cassette, which the operator is told.

use std::sync::atomic::Ordering::Relaxed;

use super::Journal;

/// Something that went wrong with a cassette while a connection was recorded, or answered from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CassetteTrouble<'a> {
    /// Which.
    pub cassette: &'a str,
    /// Of whose answers.
    pub host: &'a str,
    /// What went wrong.
    pub why: &'a str,
}

impl Journal {
    /// Says what went wrong with a cassette. A guest decides how often, so only the first time is a warning.
    pub(in crate::network) fn cassette_trouble(&self, trouble: &CassetteTrouble<'_>) {
        if let Some(teller) = &self.teller {
            return teller.cassette_trouble(trouble);
        }
        let CassetteTrouble { cassette, host, why } = trouble;
        if self.warned.swap(true, Relaxed) {
            tracing::debug!(cassette, host, "{why}");
        } else {
            tracing::warn!(cassette, host, "{why}; more of this sandbox's is told at debug");
        }
    }
}
