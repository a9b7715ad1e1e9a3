//! Machines made ahead of their callers, and who may have one when.
//!
//! ```text
//! claim ──▶ admission (budget, fair queue) ──▶ parked? renew : waiting monitor? load : restore ──▶ Lease
//! refill (off the hot path) ──▶ restore, open the gate, prime ──▶ parked
//! ```
//!
//! Called by `service`. One task owns the state (`actor`), decisions are pure (`policy`, `queue`, `pacing`; the time is
//! an argument), what takes time runs elsewhere: refills in tasks of their own, a claim's start in the caller's. A
//! parked machine goes to one claim and never comes back. It never looks into a sandbox: that is the holder's.

mod actor;
mod config;
mod demand;
mod error;
mod fill;
mod handle;
mod lease;
mod pacing;
mod policy;
mod queue;
mod status;
mod template;

pub use config::{PoolConfig, PooledTemplate, Watermarks};
pub use error::{ClaimError, Resource, Shortage};
pub use handle::{ClaimRequest, Pool};
pub use lease::{Booted, Lease, StartKind};
pub use status::{Level, PoolStatus, TemplateStatus};
