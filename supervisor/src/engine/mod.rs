//! Virtual machine monitors behind one pair of traits.
//!
//! An [`Engine`] boots a machine or restores a snapshot; a [`Machine`] is paused, resumed, frozen into a
//! snapshot, dialled and ended. Called by `vm` only. An engine never sees a sandbox id and knows nothing
//! of the agent's protocol: it is given a work directory, a ticket for a control group and files, and it
//! gives back a byte stream.
//!
//! | module | what it holds |
//! |---|---|
//! | [`detect`] | which engine to use on this host, and why |
//! | [`firecracker`] | the production engine: Firecracker under its jailer, on KVM |
//! | [`qemu`] | the portable engine: QEMU's `microvm`, emulated or on KVM |
//! | [`fake`] | an engine without virtual machines, for tests of the layers above |

pub mod detect;
mod error;
pub mod fake;
pub mod firecracker;
mod identity;
pub mod qemu;
mod spec;
mod timing;
mod traits;

pub use error::{EngineError, Operation};
pub use identity::{Capabilities, EngineIdentity, EngineKind};
pub use spec::{BootSpec, Hardware, IoThrottle, MachineHome, RestoreSpec, SnapshotFiles};
pub use timing::{Stage, Stopwatch, Timings};
pub use traits::{BoxFuture, ByteStream, Engine, Machine, PrespawnedMonitor, Started};
