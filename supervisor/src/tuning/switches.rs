//! Which mechanisms are on: all, but those that are named with a minus.

/// A mechanism of the host that only saves time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The successor of a claimed machine is made a moment later.
    HeadStart,
    /// A lower CPU weight for machines that nobody has claimed.
    CpuWeight,
    /// Pages that every clone writes to, copied before it runs.
    PrefaultClones,
    /// What a first program touches, read from the disk while the monitor starts.
    WorkingSet,
}

/// The host's, by name.
pub const HOST: [(&str, Mechanism); 4] = [
    ("head_start", Mechanism::HeadStart),
    ("cpu_weight", Mechanism::CpuWeight),
    ("prefault_clones", Mechanism::PrefaultClones),
    ("working_set", Mechanism::WorkingSet),
];

/// The guest's, as the agent knows them. They are decided when a template is built.
pub const GUEST: [&str; 4] = ["preopened", "settle", "prepared_interpreters", "spare_cgroup"];

/// The ones that are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    host: Vec<Mechanism>,
    guest: Vec<&'static str>,
}

/// A word that names nothing that can be switched off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {word:?} is no mechanism that can be switched off\nhint: a list such as -{},-{}; known are {}", super::VARIABLE, HOST[0].0, HOST[1].0, names().collect::<Vec<_>>().join(", "))]
pub struct UnknownSwitch {
    /// The word.
    pub word: String,
}

fn names() -> impl Iterator<Item = &'static str> {
    HOST.iter().map(|(name, _)| *name).chain(GUEST)
}

impl Switches {
    /// Reads `-name,-name`.
    ///
    /// # Errors
    /// When a name is unknown or has no minus.
    pub fn parse(value: &str) -> Result<Self, UnknownSwitch> {
        let mut off = Self::default();
        for word in value.split(',') {
            let name = word.strip_prefix('-');
            let host = HOST.iter().find(|(known, _)| Some(*known) == name);
            let guest = GUEST.iter().find(|known| Some(**known) == name);
            match (host, guest) {
                (Some((_, mechanism)), _) => off.host.push(*mechanism),
                (None, Some(known)) => off.guest.push(known),
                (None, None) => return Err(UnknownSwitch { word: word.to_owned() }),
            }
        }
        Ok(off)
    }

    /// Whether a mechanism of the host is on.
    #[must_use]
    pub fn on(&self, mechanism: Mechanism) -> bool {
        !self.host.contains(&mechanism)
    }

    /// What the agent is to be told; nothing where all of its mechanisms are on. The same ones give the same word.
    #[must_use]
    pub fn guest_argument(&self) -> Option<String> {
        let off = GUEST.iter().filter(|name| self.guest.contains(name));
        let words: Vec<String> = off.map(|name| format!("-{name}")).collect();
        (!words.is_empty()).then(|| format!("rekindle.tuning={}", words.join(",")))
    }
}

#[cfg(test)]
mod tests;
