//! Which mechanisms are on: all, but those that `tuning=` names with a minus.

/// A mechanism that only saves time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The gate's files opened before the snapshot.
    Preopened,
    /// A pause before the snapshot, in which the kernel does what is left to do.
    Settle,
    /// Interpreters that are ready for the usual execution.
    PreparedInterpreters,
    /// A control group that is made before an execution needs it.
    SpareCgroup,
}

/// All of them, by the names they have in `tuning=`.
const NAMES: [(&str, Mechanism); 4] = [
    ("preopened", Mechanism::Preopened),
    ("settle", Mechanism::Settle),
    ("prepared_interpreters", Mechanism::PreparedInterpreters),
    ("spare_cgroup", Mechanism::SpareCgroup),
];

/// The ones that are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    off: Vec<Mechanism>,
}

impl Switches {
    /// Reads `-name,-name`; `None` when a name is unknown or has no minus.
    pub fn parse(value: &str) -> Option<Self> {
        let find = |word: &str| {
            let name = word.strip_prefix('-')?;
            NAMES.iter().find(|(known, _)| *known == name).map(|(_, mechanism)| *mechanism)
        };
        Some(Self { off: value.split(',').map(find).collect::<Option<_>>()? })
    }

    /// Whether it is on.
    pub fn on(&self, mechanism: Mechanism) -> bool {
        !self.off.contains(&mechanism)
    }
}

#[cfg(test)]
mod tests;
