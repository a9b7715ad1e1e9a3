//! Which figure each mechanism claims to move, and which ones what is always there may cost something.

use rekindle::engine::EngineKind;

use crate::scenario::Scenario;

/// A mechanism that only saves time, and what it should show in.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name; for most the one of its switch.
    pub name: &'static str,
    /// How it is left out.
    pub off: Off,
    /// The figures that callers see.
    pub figures: &'static [Claim],
    /// The only engine that has it.
    pub engine: Option<EngineKind>,
}

/// How a mechanism is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// By its switch, in a run of its own.
    Switch,
    /// It has a setting of its own, and a scenario without it takes turns with the one that has it: that one's series.
    Beside(Claim),
    /// It saves no time, and nobody can do without it: its agent is told this in a run of its own, and the question is
    /// what it costs.
    Word(&'static str),
}

/// A series of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The scenario.
    pub scenario: Scenario,
    /// The series; all are times.
    pub series: &'static str,
}

const fn claim(scenario: Scenario, series: &'static str) -> Claim {
    Claim { scenario, series }
}

const RESTORE: Claim = claim(Scenario::Restore, "restore_output");
const USABLE: Claim = claim(Scenario::Restore, "restore_usable");
const FLOOR: Claim = claim(Scenario::Floor, "floor_usable");
const COLD: Claim = claim(Scenario::Restore, "restore_cold_usable");
const CLAIM: Claim = claim(Scenario::ClaimParked, "claim_parked_output");
const PYTHON: Claim = claim(Scenario::FirstPython, "first_python");
const NODE: Claim = claim(Scenario::FirstNode, "first_node");
const PRESPAWNED: Claim = claim(Scenario::RestorePrespawned, "restore_prespawned_output");
const EXECUTION: Claim = claim(Scenario::ExecRoundtrip, "exec_roundtrip");

const fn switch(name: &'static str, figures: &'static [Claim]) -> Case {
    Case { name, off: Off::Switch, figures, engine: None }
}

const fn firecracker(name: &'static str, figures: &'static [Claim]) -> Case {
    Case { engine: Some(EngineKind::Firecracker), ..switch(name, figures) }
}

/// Every mechanism there is a switch for, and those with a setting; last what every start pays for.
pub const CASES: [Case; 10] = [
    firecracker("prefault_clones", &[RESTORE, PYTHON]),
    switch("working_set", &[COLD]),
    switch("head_start", &[CLAIM]),
    switch("cpu_weight", &[CLAIM]),
    Case { name: "prespawned", off: Off::Beside(RESTORE), figures: &[PRESPAWNED], engine: None },
    switch("preopened", &[USABLE]),
    switch("settle", &[RESTORE]),
    switch("prepared_interpreters", &[PYTHON, NODE]),
    switch("spare_cgroup", &[RESTORE, EXECUTION]),
    Case { name: "network", off: Off::Word("network=off"), figures: &[FLOOR, USABLE, RESTORE], engine: None },
];

impl Case {
    /// What has to be measured for it.
    #[must_use]
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut all: Vec<Scenario> = self.figures.iter().map(|figure| figure.scenario).collect();
        if let Off::Beside(other) = self.off {
            all.push(other.scenario);
        }
        all.dedup();
        all
    }
}
