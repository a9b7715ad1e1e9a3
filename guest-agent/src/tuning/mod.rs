//! Mechanisms that only save time. Without them everything works the same, and clones take longer to their first result.
//!
//! Each has a switch (`tuning=-preopened,-settle`, see `switches.rs`) and is called from a hook here; the rest of the
//! agent calls the hooks and asks for no switch. What gets an interpreter or a control group ready is with the others'
//! code, in `interpreters` and `exec`.
//!
//! ```text
//!   standby_ready, before_snapshot ──snapshot, restore──► gate_files, gate_opened ──► execution_done
//! ```

mod hooks;
mod preopened;
mod switches;

pub use hooks::Tuning;
pub use preopened::GateFiles;
use switches::Mechanism;
pub use switches::Switches;
