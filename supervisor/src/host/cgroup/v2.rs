//! The file names and number formats of the unified hierarchy.

use super::CgroupError;
use super::group::Place;
use super::limits::{CpuQuota, CpuWeight, IoLimit, Limits};
use super::usage::{Usage, keyed};

pub(super) fn controllers_of(kind: super::LimitKind) -> &'static str {
    match kind {
        super::LimitKind::Cpu => "cpu",
        super::LimitKind::Memory => "memory",
        super::LimitKind::Pids => "pids",
        super::LimitKind::Io => "io",
    }
}

pub(super) fn apply(place: &Place, limits: &Limits) -> Result<(), CgroupError> {
    if let Some(cpu) = limits.cpu.filter(|_| place.has("cpu")) {
        place.write("cpu.max", &format!("{} {}", cpu.quota_us(), CpuQuota::PERIOD_US))?;
    }
    if let Some(bytes) = limits.memory_bytes.filter(|_| place.has("memory")) {
        place.write("memory.max", &bytes)?;
        // Present only where the kernel accounts for swap.
        place.write_if_present("memory.swap.max", &0)?;
        // A monitor without one of its threads is of no use to anyone.
        place.write_if_present("memory.oom.group", &1)?;
    }
    if let Some(pids) = limits.pids.filter(|_| place.has("pids")) {
        place.write("pids.max", &pids)?;
    }
    if let Some(io) = limits.io.filter(|_| place.has("io")) {
        let (major, minor) = io.device;
        let or_max = |value: Option<u64>| value.map_or_else(|| "max".to_owned(), |value| value.to_string());
        let (bytes, operations) = (or_max(io.bytes_per_second), or_max(io.operations_per_second));
        place.write(
            "io.max",
            &format!("{major}:{minor} rbps={bytes} wbps={bytes} riops={operations} wiops={operations}"),
        )?;
    }
    Ok(())
}

pub(super) fn set_weight(place: &Place, cpu_weight: CpuWeight) -> Result<(), CgroupError> {
    // The kernel's own starting value is 100.
    place.write_if_present("cpu.weight", &cpu_weight.percent())
}

pub(super) fn read_back(place: &Place) -> Result<Limits, CgroupError> {
    let mut limits = Limits::default();
    if place.has("cpu") {
        let text = place.text("cpu.max")?;
        limits.cpu = text
            .trim()
            .split_once(' ')
            .and_then(|(quota, period)| CpuQuota::from_quota(quota.parse().ok()?, period.parse().ok()?));
    }
    if place.has("memory") {
        limits.memory_bytes = place.number("memory.max").ok();
    }
    if place.has("pids") {
        limits.pids = place.number("pids.max").ok();
    }
    if place.has("io") {
        limits.io = place.text("io.max")?.lines().find_map(parse_io);
    }
    Ok(limits)
}

pub(super) fn usage(place: &Place) -> Usage {
    let cpu = place.text("cpu.stat").unwrap_or_default();
    let events = place.text("memory.events").unwrap_or_default();
    Usage {
        cpu_usec: keyed(&cpu, "usage_usec "),
        throttled_usec: keyed(&cpu, "throttled_usec "),
        throttled_periods: keyed(&cpu, "nr_throttled "),
        memory_bytes: place.number("memory.current").ok(),
        // Since Linux 5.19.
        memory_peak_bytes: place.number("memory.peak").ok(),
        oom_kills: keyed(&events, "oom_kill "),
        pids: place.number("pids.current").ok(),
    }
}

/// `8:0 rbps=1 wbps=1 riops=max wiops=max`
fn parse_io(line: &str) -> Option<IoLimit> {
    let (device, values) = line.split_once(' ')?;
    let (major, minor) = device.split_once(':')?;
    let value = |key: &str| values.split(' ').find_map(|pair| pair.strip_prefix(key)?.parse().ok());
    Some(IoLimit {
        device: (major.parse().ok()?, minor.parse().ok()?),
        bytes_per_second: value("wbps="),
        operations_per_second: value("wiops="),
    })
}
