//! Mechanisms that only save time: each can be switched off, to measure what it is worth.
//!
//! A leaf layer. [`read_environment`] is called once, by the program's `main`; whoever makes a mechanism asks [`on`]
//! when it is made, so that the plain path reads as if there were none. Nothing here changes what a caller gets.
//! docs/performance.md lists the mechanisms, docs/guides/benchmarking.md says how they are measured.

mod switches;

use std::env;
use std::sync::OnceLock;

pub use switches::{GUEST, HOST, Mechanism, Switches, UnknownSwitch};

/// Names what is off, such as `-cpu_weight,-head_start`.
pub const VARIABLE: &str = "REKINDLE_TUNING";

static CHOSEN: OnceLock<Switches> = OnceLock::new();

/// Takes what [`VARIABLE`] says. Without it everything is on.
///
/// # Errors
/// When it names something that does not exist.
pub fn read_environment() -> Result<(), UnknownSwitch> {
    let Some(value) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(()) };
    choose(Switches::parse(&value.to_string_lossy())?);
    Ok(())
}

/// Chooses for this process. The first choice counts: what was made by it is not made again.
pub fn choose(switches: Switches) {
    let _ = CHOSEN.set(switches);
}

/// Whether a mechanism of the host is on.
#[must_use]
pub fn on(mechanism: Mechanism) -> bool {
    CHOSEN.get().is_none_or(|switches| switches.on(mechanism))
}

/// The word for the agent on its kernel's command line, where something of the guest is off. A template that is built
/// with it is another one: it is part of the recipe's digest.
#[must_use]
pub fn guest_argument() -> Option<String> {
    CHOSEN.get().and_then(Switches::guest_argument)
}
