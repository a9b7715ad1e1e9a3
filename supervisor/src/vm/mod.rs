//! The life of one virtual machine: from files on the disk to an agent that answers, and back to nothing.
//!
//! ```text
//! reserve ──▶ Reserved ──launch/restore──▶ Running ──connect──▶ Connected ──open_gate──▶ Vm ──stop──▶ gone
//!                 └─prespawn──▶ Prespawned ──load──▶┘
//!                 └───────────── any failure unwinds everything made so far ─────────────┘
//! ```
//!
//! Called by the command line and, above it, by the pool. It joins an engine, which knows machines, to the
//! agent's client, which knows conversations; neither knows the other. Only `driver` changes the state of a
//! running machine, only `workdir` removes its files.

mod driver;
mod error;
mod gate;
mod handle;
mod host;
mod id;
mod kept;
mod limits;
mod phases;
mod recovery;
mod restore;
mod scratch;
mod template;
mod users;
mod workdir;
mod working_set;

pub use driver::{Death, MachineUsage, VmState};
pub use error::{StartError, StartStage};
pub use gate::{Identity, ScratchMount};
pub use handle::{Lost, Vm};
pub use host::{HostError, VmHost, VmHostConfig};
pub use id::VmId;
pub use kept::KeptDisk;
pub use phases::{Connected, Plan, Prespawned, Reserved, Running};
pub use recovery::{Reclaimed, reclaim};
pub use restore::{files, prespawn_clone, restore_clone};
pub use scratch::ScratchPlan;
pub use template::{BuildError, BuildStep, BuiltTemplate, TemplateSource};
pub use users::UserRange;
pub(crate) use workdir::Record;
