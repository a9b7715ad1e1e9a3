//! Whether a snapshot fits, and if not, what exactly differs.

use std::fmt;

use super::manifest::Inputs;

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What, in words.
    pub field: &'static str,
    /// The snapshot's.
    pub snapshot: String,
    /// This host's, now.
    pub here: String,
    /// Why it may differ.
    pub kind: DifferenceKind,
}

/// Why a snapshot may differ from what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// It is another engine's; one host may use several, each with snapshots of its own.
    Engine,
    /// It was made on another host, or before this one was changed.
    Origin,
    /// What it was made from has been renewed since.
    Input,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, snapshot, here, .. } = self;
        write!(f, "{field} is {} in the snapshot and {} here", short(snapshot), short(here))
    }
}

/// A hash is recognised by its first dozen digits.
fn short(value: &str) -> &str {
    let hash = value.len() >= 32 && value.chars().all(|c| c.is_ascii_hexdigit());
    if hash { &value[..12] } else { value }
}

pub(super) fn list_differences(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Inputs {
    /// How a snapshot made from `self` differs from what is wanted; empty when it fits.
    #[must_use]
    pub fn differences(&self, wanted: &Self) -> Vec<Difference> {
        use DifferenceKind::{Engine, Input, Origin};
        let fields = [
            (Engine, "the engine", &self.origin.engine, &wanted.origin.engine),
            (Origin, "the monitor's version", &self.origin.version, &wanted.origin.version),
            (Origin, "the accelerator", &self.origin.accelerator, &wanted.origin.accelerator),
            (Origin, "the processor's vendor", &self.origin.cpu.vendor, &wanted.origin.cpu.vendor),
            (Origin, "the processor's name", &self.origin.cpu.name, &wanted.origin.cpu.name),
            (Origin, "the processor's signature", &self.origin.cpu.signature, &wanted.origin.cpu.signature),
            (Origin, "the processor's feature set", &self.origin.cpu.features, &wanted.origin.cpu.features),
            (Input, "the kernel", &self.kernel, &wanted.kernel),
            (Input, "the root image", &self.image, &wanted.image),
            (Input, "the recipe", &self.recipe, &wanted.recipe),
        ];
        fields
            .into_iter()
            .filter(|(_, _, snapshot, here)| snapshot != here)
            .map(|(kind, field, snapshot, here)| Difference {
                kind,
                field,
                snapshot: snapshot.clone(),
                here: here.clone(),
            })
            .collect()
    }
}
