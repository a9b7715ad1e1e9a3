//! The benchmark harness: what a start, an execution, a transfer and an idle clone cost on this machine.
//!
//! Run by `cargo xtask bench`, which builds what it needs first. Everything it prints was measured in the
//! same run: scenarios take turns, so that a busy minute of the host hits all of them, and ratios are made
//! of figures that were measured side by side. What could not be measured is named with its reason.
//!
//! ```text
//! args ──▶ bed (engine, snapshot) ──▶ run: phases of scenarios, round by round ──▶ record
//!                                                                                    │
//!            terminal table, report.json, report.md, report.html ◀── report ◀── stats, ratios
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`args`] | what is asked for |
//! | [`ablation`] | what each mechanism that only saves time is worth: short runs of this program, on and off |
//! | [`bed`] | one engine, one snapshot, and clones of it |
//! | [`floor`] | the least a start can cost: a bare monitor and a hand-written conversation with it |
//! | [`page_cache`] | files put into the host's page cache and out of it |
//! | [`scenario`] | what is measured, one file each |
//! | [`run`], [`progress`] | the order of things, and a line about it on the screen |
//! | [`record`], [`stats`] | samples, and what can honestly be said about them |
//! | [`ratio`], [`baseline`] | promises kept or not, and the guard against getting worse |
//! | [`fingerprint`] | the machine it was measured on |
//! | [`report`] | the four outputs |

#![forbid(unsafe_code)]

pub mod ablation;
pub mod args;
pub mod baseline;
pub mod bed;
pub mod fingerprint;
pub mod floor;
pub mod page_cache;
pub mod progress;
pub mod ratio;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stats;
