//! The file names and number formats of the older hierarchies, one per controller.

use std::fs;
use std::path::Path;

use super::CgroupError;
use super::group::Place;
use super::limits::{CpuQuota, CpuWeight, IoLimit, Limits};
use super::usage::{Usage, keyed};

/// The share of a group that says nothing.
const SHARES: u64 = 1024;
/// "No limit" reads as a number around 2^63, rounded to pages.
const UNLIMITED: u64 = 1 << 62;

pub(super) fn controllers_of(kind: super::LimitKind) -> &'static str {
    match kind {
        super::LimitKind::Cpu => "cpu",
        super::LimitKind::Memory => "memory",
        super::LimitKind::Pids => "pids",
        super::LimitKind::Io => "blkio",
    }
}

pub(super) fn apply(places: &[Place], limits: &Limits) -> Result<(), CgroupError> {
    for place in places {
        if let Some(cpu) = limits.cpu.filter(|_| place.has("cpu")) {
            place.write("cpu.cfs_period_us", &CpuQuota::PERIOD_US)?;
            place.write("cpu.cfs_quota_us", &cpu.quota_us())?;
        }
        if let Some(bytes) = limits.memory_bytes.filter(|_| place.has("memory")) {
            place.write("memory.limit_in_bytes", &bytes)?;
            // Present only where the kernel accounts for swap.
            place.write_if_present("memory.memsw.limit_in_bytes", &bytes)?;
        }
        if let Some(pids) = limits.pids.filter(|_| place.has("pids")) {
            place.write("pids.max", &pids)?;
        }
        if let Some(io) = limits.io.filter(|_| place.has("blkio")) {
            let (major, minor) = io.device;
            for direction in ["read", "write"] {
                if let Some(bytes) = io.bytes_per_second {
                    let file = format!("blkio.throttle.{direction}_bps_device");
                    place.write(&file, &format!("{major}:{minor} {bytes}"))?;
                }
                if let Some(operations) = io.operations_per_second {
                    let file = format!("blkio.throttle.{direction}_iops_device");
                    place.write(&file, &format!("{major}:{minor} {operations}"))?;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn set_weight(places: &[Place], cpu_weight: CpuWeight) -> Result<(), CgroupError> {
    places
        .iter()
        .filter(|place| place.has("cpu"))
        .try_for_each(|place| place.write_if_present("cpu.shares", &(SHARES * cpu_weight.percent() / 100)))
}

pub(super) fn read_back(places: &[Place]) -> Result<Limits, CgroupError> {
    let mut limits = Limits::default();
    for place in places {
        if place.has("cpu") {
            // -1 means no quota.
            let quota = place.number("cpu.cfs_quota_us").ok();
            let period = place.number("cpu.cfs_period_us")?;
            limits.cpu = quota.and_then(|quota| CpuQuota::from_quota(quota, period));
        }
        if place.has("memory") {
            limits.memory_bytes =
                Some(place.number("memory.limit_in_bytes")?).filter(|bytes| *bytes < UNLIMITED);
        }
        if place.has("pids") {
            limits.pids = place.number("pids.max").ok();
        }
        if place.has("blkio") {
            let bytes = device_line(&place.dir.join("blkio.throttle.write_bps_device"));
            let operations = device_line(&place.dir.join("blkio.throttle.write_iops_device"));
            limits.io = bytes.or(operations).map(|(device, _)| IoLimit {
                device,
                bytes_per_second: bytes.map(|(_, value)| value),
                operations_per_second: operations.map(|(_, value)| value),
            });
        }
    }
    Ok(limits)
}

pub(super) fn usage(places: &[Place]) -> Usage {
    let mut usage = Usage::default();
    for place in places {
        if place.has("cpuacct") {
            usage.cpu_usec = place.number("cpuacct.usage").ok().map(|nanos| nanos / 1000);
        }
        if place.has("cpu") {
            let text = place.text("cpu.stat").unwrap_or_default();
            usage.throttled_usec = keyed(&text, "throttled_time ").map(|nanos| nanos / 1000);
            usage.throttled_periods = keyed(&text, "nr_throttled ");
        }
        if place.has("memory") {
            usage.memory_bytes = place.number("memory.usage_in_bytes").ok();
            usage.memory_peak_bytes = place.number("memory.max_usage_in_bytes").ok();
            let text = place.text("memory.oom_control").unwrap_or_default();
            usage.oom_kills = keyed(&text, "oom_kill ");
        }
        if place.has("pids") {
            usage.pids = place.number("pids.current").ok();
        }
    }
    usage
}

/// The first `major:minor value` line of a throttle file.
fn device_line(path: &Path) -> Option<((u32, u32), u64)> {
    let text = fs::read_to_string(path).ok()?;
    let (device, value) = text.lines().next()?.split_once(' ')?;
    let (major, minor) = device.split_once(':')?;
    Some(((major.parse().ok()?, minor.parse().ok()?), value.trim().parse().ok()?))
}
