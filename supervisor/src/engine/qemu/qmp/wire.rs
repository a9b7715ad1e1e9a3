//! The lines of the control channel.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::host::untrusted::printable;

/// Longest line accepted from a monitor. Its longest honest answer is a few kilobytes.
pub(super) const MAX_LINE: usize = 256 * 1024;

/// Bytes that are kept of what a monitor says in its own words.
pub(super) const MAX_WORDS: usize = 400;

/// Something the monitor told without being asked. Many of them may wait for who listens, so nothing else is kept: of
/// a line, all of its data would take up to sixteen times its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A named event.
    Named {
        /// QEMU's name, for example `STOP`.
        name: String,
        /// The status in its data.
        status: Option<String>,
    },
    /// The channel is closed; nothing follows.
    Closed,
}

/// A line from the monitor.
#[derive(Debug)]
pub(crate) enum Incoming {
    Greeting,
    Reply { id: u64, result: Result<Value, Refusal> },
    Event(Event),
}

/// An error as the monitor words it.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(super) class: String,
    #[serde(default)]
    pub(super) desc: String,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "QMP")]
    greeting: Option<Value>,
    #[serde(rename = "return")]
    returned: Option<Value>,
    error: Option<Refusal>,
    event: Option<String>,
    #[serde(default)]
    data: Value,
    id: Option<u64>,
}

impl Incoming {
    /// What it is, for who expected something else.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Greeting => "a greeting",
            Self::Reply { .. } => "a reply",
            Self::Event(_) => "an event",
        }
    }

    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| words(&error.to_string()))?;
        match line {
            Line { greeting: Some(_), .. } => Ok(Self::Greeting),
            Line { event: Some(name), data, .. } => {
                let status = data["status"].as_str().map(words);
                Ok(Self::Event(Event::Named { name: words(&name), status }))
            }
            Line { error: Some(Refusal { class, desc }), id: Some(id), .. } => {
                let refusal = Refusal { class: words(&class), desc: words(&desc) };
                Ok(Self::Reply { id, result: Err(refusal) })
            }
            Line { error: Some(refusal), .. } => {
                Err(format!("an error that answers nothing: {}", words(&refusal.desc)))
            }
            Line { returned, id: Some(id), .. } => {
                Ok(Self::Reply { id, result: Ok(returned.unwrap_or_default()) })
            }
            Line { .. } => Err("a line that is neither greeting, reply nor event".to_owned()),
        }
    }
}

/// A monitor's words, as they may be shown.
pub(super) fn words(text: &str) -> String {
    printable(text, MAX_WORDS)
}

/// A command as one line.
pub(super) fn command(id: u64, name: &str, arguments: &Value) -> Vec<u8> {
    let mut message = json!({ "execute": name, "id": id });
    if !arguments.is_null() {
        message["arguments"] = arguments.clone();
    }
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
