//! The restore gate: nothing of a caller's runs until a clone has been made its own, and it fails closed.
//!
//! ```text
//!   closed ──restore ok──► open ──quiesce──► closed (and into a snapshot)
//!                           ▲└──renewed: the same once more, while nothing is under way
//!                            └──stop──► closed, everything on the disk (and the machine is ended)
//!      └──restore failed──► failed: this guest is never used
//! ```

mod clock;
pub mod entropy;
mod gate;
pub mod identity;
mod open;
mod privileges;
mod quiesce;
pub mod reseed;
mod scratch;
mod stop;

pub use clock::adjust;
pub use gate::{Gate, Sandbox};
pub use open::restore;
pub use quiesce::quiesce;
pub use stop::stop;
