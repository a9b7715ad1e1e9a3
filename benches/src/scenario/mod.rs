//! What is measured. Each scenario knows how to take one sample; `run` decides when.
//!
//! A new scenario is a name in [`Scenario`], an `async fn sample`, and a row in the table of its phase in `run`.

pub mod alternatives;
pub mod claim;
pub mod crowd;
pub mod e2b;
pub mod egress;
pub mod first_run;
pub mod grpc;
pub mod roundtrip;
pub mod starts;
pub mod transfer;
pub mod working_set;

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The scenarios there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// The least a restore can cost: a bare monitor and the shortest conversation
    Floor,
    /// A machine that boots
    ColdBoot,
    /// A clone of the snapshot, hot and cold page cache
    Restore,
    /// A clone whose monitor was started before it was needed
    RestorePrespawned,
    /// A machine that was restored beforehand and waits in the pool
    ClaimParked,
    /// A machine that boots and one that is restored, to the first output of Python
    PythonStart,
    /// The first Python program of a clone
    FirstPython,
    /// The first JavaScript program of a clone
    FirstNode,
    /// The first Python program that imports numpy and pandas
    PythonData,
    /// `true` in a warm sandbox, without its own time, beside a bare round trip
    ExecRoundtrip,
    /// `true` in a warm sandbox through the service, beside the agent's client alone
    GrpcRoundtrip,
    /// `true` by the shell as E2B's SDKs ask for it, beside the same over gRPC
    E2bRoundtrip,
    /// A file into a sandbox, beside the raw channel
    Upload,
    /// A file out of a sandbox, beside the raw channel
    Download,
    /// Transfers through the gate beside the raw channel, and executions beside an idle and a busy network
    Egress,
    /// What an idle clone has for itself
    Density,
    /// Many starts at once
    Burst,
    /// Restores that read the snapshot's working set early, and restores that do not
    WorkingSet,
    /// A fresh process under bubblewrap
    Bubblewrap,
    /// A fresh container with crun
    Container,
}

impl Scenario {
    /// Whether samples of the two are taken in turns, round by round. Of one scenario they always are.
    #[must_use]
    pub fn takes_turns_with(self, other: Self) -> bool {
        let start = |scenario| {
            matches!(
                scenario,
                Self::Floor
                    | Self::ColdBoot
                    | Self::Restore
                    | Self::RestorePrespawned
                    | Self::PythonStart
                    | Self::WorkingSet
                    | Self::Bubblewrap
                    | Self::Container
            )
        };
        self == other || (start(self) && start(other))
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}
