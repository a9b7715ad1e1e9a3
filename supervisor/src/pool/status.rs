//! What a pool publishes about itself after everything that happens.

use crate::config::TemplateName;

/// How much of something is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// In use.
    pub used: u64,
    /// All there is, overcommitment included.
    pub total: u64,
}

/// The state of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Memory in MiB: claimed, parked, and of machines on their way in or out.
    pub memory_mib: Level,
    /// Processors in thousandths: claimed.
    pub milli_cpus: Level,
    /// Disk in MiB, likewise: the sizes of scratch disks.
    pub disk_mib: Level,
    /// What is free on the file system they are on, when it was last looked at.
    pub disk_free_mib: u64,
    /// That is less than the reserve: nothing new is begun.
    pub disk_low: bool,
    /// Claims that wait for room.
    pub queued: usize,
    /// No claims are taken any more.
    pub draining: bool,
    /// Each template, in the order the pool was given them.
    pub templates: Vec<TemplateStatus>,
}

/// The state of one template's machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateStatus {
    /// Which template.
    pub name: TemplateName,
    /// Machines that wait for a caller.
    pub parked: u32,
    /// Monitors that wait for their snapshot.
    pub prespawned: u32,
    /// Of both, the ones being made.
    pub filling: u32,
    /// Claims that got a parked machine.
    pub claims_parked: u64,
    /// Claims that got a waiting monitor.
    pub claims_prespawned: u64,
    /// Claims a machine was restored for.
    pub claims_restored: u64,
    /// Machines that did not start or could not be handed over.
    pub start_failures: u64,
}
