//! Where a call comes from in its caller's own work: the trace it is part of, and the step of it. Both are the caller's
//! words; they are carried along and told, and decide nothing.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name of a step.
pub const MAX_STEP: usize = 64;

/// The name of a trace, as W3C's Trace Context has it: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId([u8; 16]);

/// A trace, and the span of it that makes the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trace {
    /// The trace.
    pub id: TraceId,
    span: [u8; 8],
    flags: u8,
}

/// The name of a step: 1 to [`MAX_STEP`] printable characters of ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Step(Arc<str>);

/// Where a call comes from. Most calls do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The trace.
    pub trace: Option<Trace>,
    /// The step.
    pub step: Option<Step>,
}

/// A text that names no trace, or no step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrigin {
    /// It is no id of a trace.
    #[error("a trace is named by 32 hexadecimal digits in lower case, not all of them zero")]
    TraceId,
    /// It is no header `traceparent`.
    #[error("this is no traceparent: VERSION-TRACE-SPAN-FLAGS, such as 00-<32 digits>-<16 digits>-01")]
    Trace,
    /// It is no name of a step.
    #[error("a step is named by 1 to {MAX_STEP} printable ASCII characters, without spaces around them")]
    Step,
}

/// Bytes of exactly so many digits; W3C has them in lower case.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let right = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(right) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn write_digits(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl FromStr for TraceId {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        digits(text).filter(|id| *id != [0; 16]).map(Self).ok_or(InvalidOrigin::TraceId)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(&self.0, f)
    }
}

impl Trace {
    /// A trace, as one of its spans with this name calls it.
    #[must_use]
    pub fn new(id: TraceId, span: [u8; 8]) -> Self {
        Self { id, span, flags: 1 }
    }

    /// The name of the span, as text.
    #[must_use]
    pub fn span(&self) -> String {
        self.span.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for Trace {
    type Err = InvalidOrigin;

    /// Reads a `traceparent`. Versions to come may say more behind what is known.
    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let parse = || {
            let mut parts = text.splitn(5, '-');
            let [version] = digits::<1>(parts.next()?)?;
            let id = parts.next()?.parse().ok()?;
            let span = digits::<8>(parts.next()?).filter(|span| *span != [0; 8])?;
            let [flags] = digits::<1>(parts.next()?)?;
            let known = version != 0xff && (version > 0 || parts.next().is_none());
            known.then_some(Self { id, span, flags })
        };
        parse().ok_or(InvalidOrigin::Trace)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.id, self.span(), self.flags & 1)
    }
}

impl Step {
    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Step {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let right = (1..=MAX_STEP).contains(&text.len()) && printable && text.trim() == text;
        right.then(|| Self(text.into())).ok_or(InvalidOrigin::Step)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Origin {
    /// The name of its trace.
    #[must_use]
    pub fn trace_id(&self) -> Option<TraceId> {
        self.trace.map(|trace| trace.id)
    }

    /// Makes a span one of the caller's trace, where traces are sent to a collector. Before it is entered.
    pub fn adopt(&self, span: &tracing::Span) {
        #[cfg(feature = "otlp")]
        if let Some(trace) = self.trace {
            use opentelemetry::trace as otel;
            use opentelemetry::trace::TraceContextExt as _;
            use tracing_opentelemetry::OpenTelemetrySpanExt as _;

            let caller = otel::SpanContext::new(
                otel::TraceId::from_bytes(trace.id.0),
                otel::SpanId::from_bytes(trace.span),
                otel::TraceFlags::new(trace.flags),
                true,
                otel::TraceState::NONE,
            );
            // Where there is no collector there is nothing to be part of.
            let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(caller));
        }
        #[cfg(not(feature = "otlp"))]
        let _ = span;
    }
}

#[cfg(test)]
mod tests;
