//! Executions: fresh processes on behalf of the supervisor, limited, observed and brought to a typed end.
//!
//! `execute` runs one from request to result; `signal` and `resize` reach a running one. The rest of the
//! folder is what they are made of. Nothing here decides whether a caller may run anything: the gate does.

mod account;
mod account_names;
pub mod child;
mod clock;
mod diagnosis;
pub mod environment;
mod execute;
mod input;
mod output;
mod pumps;
mod registry;
mod resize;
mod signal;
pub mod spec;
mod spill;
pub mod stdio;

pub use account::{Account, KnownAccount};
pub use account_names::{AccountNames, KnownNames};
pub use environment::check as check_environment;
pub use execute::execute;
pub use registry::Executions;
pub use resize::resize;
pub use signal::signal;
pub use spill::SpilledOutputs;
