//! What the service tells about itself: log, metrics, audit lines, traces. See docs/observability.md.
//!
//! A leaf layer: every layer may record, this one knows none of them. Figures and names are handed in.

mod audit;
mod logging;
mod metrics;
mod metrics_server;
mod origin;

pub use self::audit::{Audit, AuditError, ConnectionEntry, Decision, Entry, LeftOutEntry};
#[cfg(all(test, feature = "otlp"))]
pub(crate) use self::logging::collector;
#[cfg(test)]
pub(crate) use self::logging::lines;
pub use self::logging::{Logging, LoggingError};
pub use self::metrics::{Direction, Gauges, Metrics, TemplateLevels};
pub use self::metrics_server::{MetricsServer, ServeError};
pub use self::origin::{InvalidOrigin, MAX_STEP, Origin, Step, Trace, TraceId};
