//! The lines of the control channel.

use serde::Deserialize;
use serde_json::{Value, json};

/// Longest line accepted from a monitor. Its longest honest answer is a few kilobytes.
pub(super) const MAX_LINE: usize = 256 * 1024;

/// Something the monitor told without being asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A named event with its data.
    Named {
        /// QEMU's name, for example `STOP`.
        name: String,
        /// Its data, `null` when it has none.
        data: Value,
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
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match line {
            Line { greeting: Some(_), .. } => Ok(Self::Greeting),
            Line { event: Some(name), data, .. } => Ok(Self::Event(Event::Named { name, data })),
            Line { error: Some(refusal), id: Some(id), .. } => Ok(Self::Reply { id, result: Err(refusal) }),
            Line { error: Some(refusal), .. } => {
                Err(format!("an error that answers nothing: {}", refusal.desc))
            }
            Line { returned, id: Some(id), .. } => {
                Ok(Self::Reply { id, result: Ok(returned.unwrap_or_default()) })
            }
            Line { .. } => Err("a line that is neither greeting, reply nor event".to_owned()),
        }
    }
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
