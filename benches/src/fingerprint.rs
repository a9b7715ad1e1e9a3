//! The machine a run was measured on, so that figures are never compared across machines by mistake.

use std::fs;

use rekindle::engine::EngineIdentity;
use serde::{Deserialize, Serialize};

/// What is known about the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The processor's name.
    pub cpu: String,
    /// Processors that are on.
    pub cores: usize,
    /// The kernel's version.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// How the processors' clock is governed; nothing where the machine does not say.
    pub governor: Option<String>,
    /// Processes that wanted a processor when the run began, over one minute.
    pub load_at_start: f64,
    /// The same when it ended.
    pub load_at_end: f64,
    /// Whether this machine is a virtual one itself.
    pub hypervisor: bool,
    /// What its firmware calls a virtual machine: maker and kind. Nothing for a real one, or where it does not say.
    #[serde(default)]
    pub virtual_kind: Option<String>,
    /// The engine.
    pub engine: String,
    /// The monitor's version.
    pub monitor: String,
    /// How guest code is run.
    pub accelerator: String,
    /// The version that limits machines.
    pub cgroups: String,
}

impl Fingerprint {
    /// Looks at this machine. The load at the end is filled in at the end.
    #[must_use]
    pub fn take(engine: &EngineIdentity) -> Self {
        let cpuinfo = text("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let release = text("/etc/os-release");
        let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let memory = text("/proc/meminfo");
        let memory = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
        let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned();
        let cgroups = rekindle::host::cgroup::CgroupManager::detect(None);
        let hypervisor =
            field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
        let firmware =
            ["sys_vendor", "product_version"].map(|name| text(&format!("/sys/class/dmi/id/{name}")));
        let kind = firmware.iter().flat_map(|said| said.split_whitespace()).collect::<Vec<_>>().join(" ");
        Self {
            cpu: field("model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            system: system.unwrap_or("unknown").trim_matches('"').to_owned(),
            memory_mib: memory.unwrap_or_default() / 1024,
            governor: Some(governor).filter(|governor| !governor.is_empty()),
            load_at_start: load(),
            load_at_end: load(),
            hypervisor,
            virtual_kind: Some(kind).filter(|kind| hypervisor && !kind.is_empty()),
            engine: engine.engine.to_string(),
            monitor: engine.version.clone(),
            accelerator: engine.accelerator.clone(),
            cgroups: cgroups.version().map_or_else(|| "none".into(), |version| version.to_string()),
        }
    }

    /// Name and value of everything, for a table.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let virtualised = match (self.hypervisor, &self.virtual_kind) {
            (true, Some(kind)) => format!(", itself a virtual machine: {kind}"),
            (true, None) => ", itself a virtual machine".to_owned(),
            (false, _) => String::new(),
        };
        vec![
            ("processor", format!("{} ({} cores{virtualised})", self.cpu, self.cores)),
            ("memory", format!("{} MiB", self.memory_mib)),
            ("system", format!("{}, Linux {}", self.system, self.kernel)),
            ("engine", format!("{} {} ({})", self.engine, self.monitor, self.accelerator)),
            ("limits", self.cgroups.clone()),
            ("governor", self.governor.clone().unwrap_or_else(|| "the machine does not say".into())),
            ("load", format!("{:.2} at the start, {:.2} at the end", self.load_at_start, self.load_at_end)),
        ]
    }
}

/// The load average of the last minute.
#[must_use]
pub fn load() -> f64 {
    text("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
