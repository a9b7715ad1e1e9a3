//! The real agent as a process, driven by the supervisor's client over a socket pair, a unix socket or a
//! terminal standing in for a serial port. No virtual machine is needed, root is.
//!
//! One binary with a module per topic. A module uses nothing but `crate::harness` to get at an agent, so a
//! suite with another harness can include it and run the same tests somewhere else.

mod harness;

mod bad_input;
mod concurrency;
mod environment;
mod execute;
mod file_facts;
mod files;
mod footprint;
mod gate;
mod health;
mod hostile_programs;
mod network;
mod output;
mod pid1;
mod port;
mod reconnect;
mod rename;
mod warm;
mod watch;
