//! Code that is run piece by piece in contexts that remember: what was defined is there in the next run.
//!
//! ```text
//! run_code ──▶ Context (one run at a time, others wait) ──▶ Driver ◀── frames ◀── a program in the guest (drivers/)
//!                 └─ of a sandbox, ends with it                └─ a detached execution that nobody lists
//! ```
//!
//! A context is one process in the guest with the rights of the sandbox's user, or of root where only root may enter the
//! context's directory and its caller may be root. It reads code from its standard input and prints; results are messages
//! between what it prints ([`frames`]). Nothing of it listens, and nothing needs a network. All that comes from it is
//! bounded and may be wrong: it is told to its own tenant and decides nothing.

mod context;
mod contexts;
mod create;
mod driver;
mod events;
mod frames;
mod language;
mod list;
mod remove;
mod restart;
mod run;

pub use context::ContextView;
pub(super) use contexts::Contexts;
pub use events::{CodeError, CodeEvent, CodeResult};
pub use language::CodeLanguage;
pub use run::{CodeRun, ContextChoice};
