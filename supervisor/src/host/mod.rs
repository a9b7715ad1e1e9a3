//! What the supervisor needs from the host's kernel: processes, control groups, KVM, disks.
//!
//! A leaf layer, called by `engine`, `vm` and the command line. It knows Linux and nothing of
//! sandboxes, snapshots or virtual machine monitors.

pub mod advice;
pub mod allocator;
pub mod cgroup;
pub mod core_dumps;
pub mod cpu;
pub mod disk;
pub mod kvm;
pub mod mapped;
pub mod memory;
pub mod meter;
pub(crate) mod oom;
pub mod open_files;
pub mod open_guard;
pub mod page_cache;
pub mod process;
mod readable;
pub mod scratch;
pub(crate) mod sparse;
pub(crate) mod undo;
pub(crate) mod untrusted;
