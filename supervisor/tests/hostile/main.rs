//! The supervisor among enemies and accidents: agents that lie, faults at every await, schedules that nobody would
//! choose. All of it follows from seeds, on a clock that jumps, and one test runs at a time: what is left behind is
//! counted for the whole process.

mod agent;
mod faults;
mod life;
mod place;
