//! One control group per virtual machine: CPU, memory, processes and disk traffic, bounded and measured.
//!
//! [`CgroupManager::detect`] finds what the host offers (the unified hierarchy, the older one per
//! controller, or nothing) and says which limits it cannot enforce and why. [`CgroupManager::create`]
//! makes a [`Cgroup`], a guard whose removal kills everything inside. Called by `vm` and by recovery;
//! it never touches a group it did not make, except to recreate limits an administrator delegated.

mod detect;
mod error;
mod group;
mod join;
mod kill;
mod limits;
mod manager;
mod table;
mod usage;
mod v1;
mod v2;

#[cfg(test)]
mod tests;

pub use error::CgroupError;
pub use group::{Cgroup, CgroupRecord};
pub use join::CgroupJoin;
pub use limits::{CpuQuota, CpuWeight, IoLimit, LimitKind, Limits, Unenforced};
pub use manager::{CgroupManager, CgroupVersion};
pub use usage::Usage;
