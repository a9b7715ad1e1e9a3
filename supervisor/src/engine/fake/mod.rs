//! An engine without virtual machines: scripted, with faults to order.
//!
//! For tests of the layers above. A "guest" is whatever the test does with its end of a stream; a
//! snapshot is two small files. It keeps the same contract as the real engines.

mod engine;
mod machine;
mod script;

pub use engine::FakeEngine;
pub use machine::FakeControl;
pub use script::Fault;
