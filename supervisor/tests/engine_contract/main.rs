//! One suite that every engine passes.
//!
//! `contract` says what an engine promises, in terms of the traits alone; each other file here brings one
//! engine to it. An engine that this machine cannot run is a reported skip.

mod bench;
mod contract;
mod fake;
mod firecracker_on_kvm;
mod guest;
mod qemu;
