//! What a supervisor does for its callers: sandboxes with an owner, a clock, a past and an end with a reason.
//!
//! ```text
//! grpc ──▶ Service ──▶ registry of sandboxes ──▶ each: one keeper task, one machine
//!             │            (owner, quotas)           └─ the only one that ends it
//!             └──▶ pool (machines to claim)
//! ```
//!
//! Called by `grpc`. One file per verb of the API. It knows callers, tenants and quotas; it never sees a byte of
//! the wire, and it never starts or stops a monitor itself.

mod authority;
mod call;
mod call_rate;
mod caller;
mod change;
mod config;
mod create;
mod describe;
mod destroy;
mod detached;
mod diagnosis;
mod error;
mod events;
mod execute;
mod file_watch;
mod files;
mod give_dir;
mod history;
mod id;
mod idempotency;
mod interpreter;
mod keeper;
mod ledger;
mod lifetime;
mod list;
mod live;
mod network;
mod overview;
mod pause;
mod pause_to_disk;
mod port;
mod presence;
mod program;
mod registry;
mod sandbox;
mod shutdown;
mod timeline;
mod timeout;
mod timezone;
mod trace;
mod turns;
mod watch;

pub use authority::{trust_variables, write_authority};
pub use call_rate::{CallRate, CallRates};
pub use caller::{Caller, Choice, Quotas, Scope, Scopes};
pub use config::ServiceConfig;
pub use create::{AtTimeout, CreateSpec, check_machine};
pub use describe::{DescribeSpec, Described};
pub use detached::{AttachEvent, Attachment, DetachedSpec, JobSelector, JobState, JobView};
pub use diagnosis::{Category, Diagnosis, diagnose};
pub use error::{ErrorKind, ServiceError};
pub use events::{SandboxEvent, SandboxEventKind};
pub use execute::Executed;
pub use file_watch::{FileChange, FileWatch, WatchFiles};
pub use history::UsagePoint;
pub use id::{ExecutionId, SandboxId};
pub use interpreter::{CodeError, CodeEvent, CodeLanguage, CodeResult, CodeRun, ContextChoice, ContextView};
pub(crate) use ledger::read_line;
pub use ledger::{Ledger, LedgerError, TenantUsage};
pub use list::{ListQuery, Page};
pub use live::{LiveEvent, LiveExecution, LiveInput, Steering};
pub use network::{Connections, connection_execution};
pub use overview::{HostStatus, TemplateView};
pub use port::{PortConnection, PortHold, Visitor};
pub use program::{ExecuteSpec, Input};
pub use registry::Service;
pub use sandbox::{End, EndReason, SandboxLimitsView, SandboxState, SandboxUsage, SandboxView, StartView};
pub use timeline::{Timeline, TimelineEntry, TimelineOutcome};
pub use trace::{StepSums, TraceEntry, TraceTimeline};
pub use turns::{ResultView, TurnsLeft, TurnsView};
pub use watch::{Watch, WatchQuery};
