//! Executions that outlive their caller, one file per verb.
//!
//! ```text
//! start ──▶ Job ◀── a task reads the program to its end, whoever looks on
//!             │        └─ frozen with the sandbox, ended with it
//!             ├── list, wait, attach: look at it, and leave it as it is
//!             └── input, signal: reach the program
//! ```
//!
//! A job belongs to its sandbox ([`Jobs`]): so many may run, and so much is kept of those that have ended. Of what a
//! program prints the last part is in memory ([`Tail`]); a reader that comes late or reads slowly is told how much it
//! missed and never holds up the program, unless it is one that must miss nothing ([`Holds`]), for a time.

mod attach;
mod hold;
mod input;
mod job;
mod jobs;
mod list;
mod select;
mod signal;
mod start;
mod tail;
mod wait;

pub use attach::{AttachEvent, Attachment};
pub use job::{JobState, JobView};
pub(super) use jobs::{Cut, Jobs};
pub use select::JobSelector;
pub use start::DetachedSpec;
