//! Mechanisms that only save time. Without them everything works the same, and clones take longer to their first result.
//!
//! Each has a switch (`tuning=-preopened,-settle`, see `switches.rs`) and is called from a hook here; the rest of the
//! agent knows the hooks and no mechanism.
//!
//! ```text
//!   before_snapshot ──snapshot, restore──► gate_files, gate_opened
//! ```

mod hooks;
mod preopened;
mod switches;

pub use hooks::Tuning;
pub use preopened::GateFiles;
pub use switches::{Mechanism, Switches};
