//! The service on real virtual machines: `rekindle serve` as a process, used through its API and through the
//! command line. The same on every engine; `REKINDLE_ENGINE` names it.
//!
//! One program, so that one snapshot serves all of it; every server has a copy of it. Deadlines are generous,
//! because an emulated guest on a busy host takes its time.

/// The laboratory, or the end of the test as a reported skip.
macro_rules! lab {
    () => {
        match rekindle_e2e::Lab::get() {
            Ok(lab) => {
                rekindle_test_support::ran_on!(rekindle_e2e::engine());
                lab
            }
            Err(reason) => rekindle_test_support::skip!("{reason}"),
        }
    };
}

mod adapters;
mod agent;
mod calls;
mod clock;
mod code;
mod command_line;
mod describe;
mod detached;
mod e2b;
mod guarded;
mod held;
mod killed;
mod large;
mod life;
mod mcp;
mod monitor;
mod network;
mod parked;
mod processes;
mod python;
mod sdk;
mod signals;
mod soak;
mod strangers;
mod stress;
mod terminal;
mod wall_clock;
mod without_memory;
