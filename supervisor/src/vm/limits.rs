//! What a machine's control group may use, from its plan. Called by `phases`.

use super::host::{Disk, VmHost};
use super::phases::Plan;
use super::scratch::ScratchPlan;
use crate::engine::IoThrottle;
use crate::host::cgroup::{CpuQuota, IoLimit, Limits};

/// The control group's limits: the guest's memory and the monitor's own, a thread per processor and a few.
pub(super) fn limits(host: &VmHost, plan: &Plan) -> Limits {
    let capabilities = host.engine().capabilities();
    // What the monitor writes to a file system in memory is charged to it: of a machine that will be frozen, its
    // whole memory once more.
    let frozen = matches!(plan.scratch, ScratchPlan::Blank { staging: Some(_), .. });
    let copies = if frozen { 2 } else { 1 };
    let memory_mib = copies * u64::from(plan.memory_mib) + capabilities.memory_overhead_mib;
    let IoThrottle { bytes_per_second, operations_per_second } = plan.io;
    let bounded = bytes_per_second.is_some() || operations_per_second.is_some();
    let device = match host.disk {
        Disk::Block(major, minor) => Some((major, minor)),
        Disk::Memory => None,
        // Not set, and refused where limits are demanded: see `CgroupManager::without`.
        Disk::Unknown => bounded.then_some((0, 0)),
    };
    Limits {
        cpu: Some(plan.cpu.unwrap_or(CpuQuota { millis: plan.vcpus * 1000 })),
        memory_bytes: Some(memory_mib * 1024 * 1024),
        pids: Some(u64::from(plan.vcpus) + capabilities.thread_overhead),
        io: device.map(|device| IoLimit { device, bytes_per_second, operations_per_second }),
    }
}
