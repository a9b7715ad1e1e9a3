//! What a host that runs strangers' code should have set, and what this one has.
//!
//! Follows what Firecracker asks of a production host. Called by `doctor`. It looks and changes nothing;
//! reading the files of `/proc` and `/sys` is apart from judging them, so that made-up hosts can be tested.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it is about, in a word or two.
    pub topic: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it; nothing when it is fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl Advice {
    fn fine(topic: &'static str, found: impl Into<String>) -> Self {
        Self { topic, found: found.into(), hint: None }
    }

    fn better(topic: &'static str, found: impl Into<String>, hint: &'static str) -> Self {
        Self { topic, found: found.into(), hint: Some(hint) }
    }

    /// Whether there is something to do.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.hint.is_none()
    }
}

/// Looks at this host.
#[must_use]
pub fn advise() -> Vec<Advice> {
    advise_on(Path::new("/"))
}

fn advise_on(root: &Path) -> Vec<Advice> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default().trim().to_owned();
    vec![
        threads(&read("sys/devices/system/cpu/smt/control"), &read("sys/devices/system/cpu/smt/active")),
        merging(&read("sys/kernel/mm/ksm/run")),
        swap(&read("proc/swaps")),
        mitigations(&read("proc/cmdline")),
        huge_pages(&read("proc/meminfo")),
    ]
}

/// Two guests on the threads of one core can observe each other.
fn threads(control: &str, active: &str) -> Advice {
    const TOPIC: &str = "smt";
    match (control, active) {
        ("", _) => Advice::fine(TOPIC, "the kernel does not say; taken for off"),
        (_, "0") => Advice::fine(TOPIC, format!("off ({control})")),
        _ => Advice::better(
            TOPIC,
            "on: guests on one core can observe each other",
            "echo off > /sys/devices/system/cpu/smt/control, and nosmt=force on the kernel's command line",
        ),
    }
}

/// Which pages were merged can be told by the time a write takes.
fn merging(run: &str) -> Advice {
    const TOPIC: &str = "ksm";
    match run {
        "" => Advice::fine(TOPIC, "the kernel has none"),
        "0" | "2" => Advice::fine(TOPIC, "off"),
        _ => Advice::better(
            TOPIC,
            "on: guests can find out what others have in memory",
            "echo 0 > /sys/kernel/mm/ksm/run",
        ),
    }
}

/// What is swapped out outlives its guest.
fn swap(swaps: &str) -> Advice {
    const TOPIC: &str = "swap";
    let names: Vec<&str> =
        swaps.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next()).collect();
    // Compressed in memory, it goes with the power.
    let on_disk: Vec<&str> = names.iter().copied().filter(|name| !name.starts_with("/dev/zram")).collect();
    match (names.is_empty(), on_disk.is_empty()) {
        (true, _) => Advice::fine(TOPIC, "off"),
        (false, true) => Advice::fine(TOPIC, format!("in memory only ({})", names.join(" "))),
        (false, false) => Advice::better(
            TOPIC,
            format!("on ({}): guests' memory may be written to disk", on_disk.join(" ")),
            "swapoff -a, and remove the entry in /etc/fstab; or encrypt it",
        ),
    }
}

fn mitigations(command_line: &str) -> Advice {
    const TOPIC: &str = "mitigations";
    if command_line.split_ascii_whitespace().any(|word| word == "mitigations=off") {
        return Advice::better(
            TOPIC,
            "off: the kernel does not keep guests apart in the processor",
            "remove mitigations=off from the kernel's command line",
        );
    }
    Advice::fine(TOPIC, "as the kernel chose")
}

/// Reserved for nobody: snapshots are mapped from files in small pages.
fn huge_pages(meminfo: &str) -> Advice {
    const TOPIC: &str = "hugepages";
    let number = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (total, free) = (number("HugePages_Total:"), number("HugePages_Free:"));
    if free == 0 {
        return Advice::fine(TOPIC, format!("{total} reserved, none idle"));
    }
    let idle_mib = free * number("Hugepagesize:") / 1024;
    Advice::better(
        TOPIC,
        format!("{idle_mib} MiB are reserved and idle; sandboxes do not use them"),
        "sysctl vm.nr_hugepages=0, unless another program is to use them",
    )
}

#[cfg(test)]
mod tests;
