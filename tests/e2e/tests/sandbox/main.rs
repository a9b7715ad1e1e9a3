//! Real virtual machines: what a sandbox is, keeps to, survives and leaves behind. The same on every engine;
//! `REKINDLE_ENGINE` names it.
//!
//! One program, so that one snapshot serves all of it. Deadlines are generous and assertions are on ratios,
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

mod bad_snapshots;
mod boot;
mod clones;
mod command_line;
mod faults;
mod full_disk;
mod killed;
mod limits;
mod prestarted;
mod warm;
