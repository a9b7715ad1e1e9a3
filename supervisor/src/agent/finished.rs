//! How an execution ended, in types that hold only what can be true.
//!
//! Built from the agent's result, which is checked against the protocol's own rules: what contradicts itself
//! is refused, what is too long is shortened again.

use rekindle_protocol::limits::DEFAULT_OUTPUT_LIMIT;
use rekindle_protocol::{output, wire};
use serde::Serialize;

use super::path::GuestPath;
use crate::host::untrusted::printable;

/// Bytes kept of a diagnosis' subject, and of its message.
const MAX_SUBJECT_BYTES: usize = 256;
/// Most that any single execution is believed to have used, so that sums over a sandbox cannot overflow:
/// a year of microseconds, and a pebibyte.
const MAX_MICROS: u64 = 365 * 24 * 60 * 60 * 1_000_000;
const MAX_MEMORY: u64 = 1 << 50;
/// The largest signal number.
const MAX_SIGNAL: u32 = 64;
/// Bytes of the longest character.
const MAX_CHAR_BYTES: u64 = 4;

/// A finished execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finished {
    /// The end itself.
    pub outcome: Outcome,
    /// Standard output, or the terminal's.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// What it took.
    pub usage: Usage,
    /// What kind of failure it looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// How the interpreter came to be, if the program was code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<Interpreter>,
}

/// How the interpreter of an execution came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpreter {
    /// It was started for this execution.
    Plain,
    /// It was started beforehand, waited, and served this execution alone.
    Warmed,
}

/// How an execution can end, as far as its agent can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Returned this exit code.
    Exited(u8),
    /// Was ended by this signal.
    Signaled(u8),
    /// Ran into its wall-clock limit.
    TimedOut,
    /// Ran into its memory limit.
    OutOfMemory,
    /// Was killed because its caller went away.
    Cancelled,
}

/// One of a program's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output, or the terminal's.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What was collected of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The text, shortened in the middle where it is long.
    pub text: String,
    /// Something was cut out.
    pub truncated: bool,
    /// Bytes the program wrote.
    pub total_bytes: u64,
    /// Characters in them.
    pub total_chars: u64,
    /// Where in the sandbox the exact bytes are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spilled_path: Option<GuestPath>,
    /// How many of them are kept.
    pub spilled_bytes: u64,
}

/// What an execution took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// From start to end, in microseconds.
    pub wall_micros: u64,
    /// CPU of all its processes, in microseconds.
    pub cpu_micros: u64,
    /// Highest memory use of all its processes, where the guest can tell.
    pub peak_memory_bytes: Option<u64>,
}

/// What a failure looks like: a guess made from the program's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The category.
    pub kind: DiagnosisKind,
    /// The missing module or command, the exception's name, the path or the signal.
    pub subject: String,
    /// What the exception says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whose words they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<GuessLanguage>,
}

/// Interpreters whose words an agent understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GuessLanguage {
    /// Python 3.
    Python,
    /// Node.
    Node,
}

/// Categories of common failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisKind {
    /// A module could not be imported.
    MissingModule,
    /// The source could not be parsed.
    SyntaxError,
    /// An exception nobody caught.
    UncaughtException,
    /// A command was not found.
    MissingCommand,
    /// Something is not allowed.
    PermissionDenied,
    /// There was no more memory.
    OutOfMemory,
    /// A fault ended a program that a shell has run.
    Crashed,
    /// An exception ended a thread or a task.
    BackgroundException,
    /// Code returned 0 and printed nothing.
    EmptyOutput,
}

impl Finished {
    /// Checks a result whose request asked for `output_limit` characters.
    pub(crate) fn from_wire(result: wire::ExecuteResult, output_limit: usize) -> Result<Self, &'static str> {
        use wire::execute_result::Outcome as Wire;
        let outcome = match result.outcome.ok_or("a result without an outcome")? {
            Wire::Exited(code) => Outcome::Exited(code.try_into().map_err(|_| "an impossible exit code")?),
            Wire::Signaled(signal @ 1..=MAX_SIGNAL) => Outcome::Signaled(signal as u8),
            Wire::Signaled(_) => return Err("an impossible signal"),
            Wire::TimedOut(_) => Outcome::TimedOut,
            Wire::OutOfMemory(_) => Outcome::OutOfMemory,
            Wire::Cancelled(_) => Outcome::Cancelled,
        };
        let usage = result.usage.ok_or("a result without usage")?;
        Ok(Self {
            outcome,
            stdout: Output::from_wire(result.stdout.ok_or("a result without stdout")?, output_limit)?,
            stderr: Output::from_wire(result.stderr.ok_or("a result without stderr")?, output_limit)?,
            usage: Usage {
                wall_micros: usage.wall_micros.min(MAX_MICROS),
                cpu_micros: usage.cpu_micros.min(MAX_MICROS),
                peak_memory_bytes: Some(usage.peak_memory_bytes.min(MAX_MEMORY)).filter(|&bytes| bytes != 0),
            },
            diagnosis: result.diagnosis.and_then(|diagnosis| Diagnosis::from_wire(&diagnosis)),
            interpreter: match wire::Interpreter::try_from(result.interpreter) {
                Ok(wire::Interpreter::Plain) => Some(Interpreter::Plain),
                Ok(wire::Interpreter::Warmed) => Some(Interpreter::Warmed),
                Ok(wire::Interpreter::Unspecified) | Err(_) => None,
            },
        })
    }
}

impl Output {
    fn from_wire(collected: wire::CollectedOutput, limit: usize) -> Result<Self, &'static str> {
        let wire::CollectedOutput {
            mut text,
            mut truncated,
            total_bytes,
            total_chars,
            spilled_path,
            spilled_bytes,
        } = collected;
        if total_chars > total_bytes || total_bytes > total_chars.saturating_mul(MAX_CHAR_BYTES) {
            return Err("output whose totals contradict each other");
        }
        let chars = text.chars().count() as u64;
        if truncated && total_chars <= chars || !truncated && total_chars != chars {
            return Err("output whose length contradicts its totals");
        }
        if spilled_bytes > total_bytes {
            return Err("more output kept than was written");
        }
        let spilled_path = match spilled_path {
            none if none.is_empty() => None,
            path if truncated && path.starts_with(b"/") => {
                Some(GuestPath::told(&path).map_err(|_| "output kept at an impossible path")?)
            }
            _ => return Err("output kept at an impossible path"),
        };
        if spilled_path.is_none() && spilled_bytes != 0 {
            return Err("output kept nowhere");
        }
        if let Some(shorter) = output::shorten(&text, limit) {
            text = shorter;
            truncated = true;
        }
        Ok(Self { text, truncated, total_bytes, total_chars, spilled_path, spilled_bytes })
    }
}

impl Diagnosis {
    /// A category this supervisor does not know is no category: newer agents may have more of them.
    fn from_wire(diagnosis: &wire::Diagnosis) -> Option<Self> {
        use wire::DiagnosisKind as Kind;
        let kind = match Kind::try_from(diagnosis.kind) {
            Ok(Kind::MissingModule) => DiagnosisKind::MissingModule,
            Ok(Kind::SyntaxError) => DiagnosisKind::SyntaxError,
            Ok(Kind::UncaughtException) => DiagnosisKind::UncaughtException,
            Ok(Kind::MissingCommand) => DiagnosisKind::MissingCommand,
            Ok(Kind::PermissionDenied) => DiagnosisKind::PermissionDenied,
            Ok(Kind::OutOfMemory) => DiagnosisKind::OutOfMemory,
            Ok(Kind::Crashed) => DiagnosisKind::Crashed,
            Ok(Kind::BackgroundException) => DiagnosisKind::BackgroundException,
            Ok(Kind::EmptyOutput) => DiagnosisKind::EmptyOutput,
            Ok(Kind::Unspecified) | Err(_) => return None,
        };
        let language = match wire::Language::try_from(diagnosis.language) {
            Ok(wire::Language::Python) => Some(GuessLanguage::Python),
            Ok(wire::Language::Node) => Some(GuessLanguage::Node),
            _ => None,
        };
        Some(Self {
            kind,
            subject: printable(&diagnosis.subject, MAX_SUBJECT_BYTES),
            message: printable(&diagnosis.message, MAX_SUBJECT_BYTES),
            language,
        })
    }

    /// Python said it.
    pub(crate) fn python(&self) -> bool {
        self.language == Some(GuessLanguage::Python)
    }

    /// Node said it.
    pub(crate) fn node(&self) -> bool {
        self.language == Some(GuessLanguage::Node)
    }
}

/// The number of characters a request asks for.
pub(super) fn effective_limit(asked: u32) -> usize {
    if asked == 0 { DEFAULT_OUTPUT_LIMIT } else { asked as usize }
}

#[cfg(test)]
mod tests;
