//! What the machine of a `rekindle run` has used, as `--json` prints it.

use std::time::Duration;

use rekindle::host::cgroup;
use serde::Serialize;

use crate::cli::remote::view::measured;

/// Figures of the host's control group; `null` where the host does not count.
#[derive(Debug, Serialize)]
pub struct Machine {
    cpu_time: Option<String>,
    throttled_time: Option<String>,
    throttled_periods: Option<u64>,
    memory_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
    oom_kills: Option<u64>,
    pids: Option<u64>,
}

impl From<cgroup::Usage> for Machine {
    fn from(from: cgroup::Usage) -> Self {
        let time = |micros: Option<u64>| micros.map(|micros| measured(Duration::from_micros(micros)));
        Self {
            cpu_time: time(from.cpu_usec),
            throttled_time: time(from.throttled_usec),
            throttled_periods: from.throttled_periods,
            memory_bytes: from.memory_bytes,
            memory_peak_bytes: from.memory_peak_bytes,
            oom_kills: from.oom_kills,
            pids: from.pids,
        }
    }
}
