//! What the program in the guest has answered: believed in nothing, not even in being our program's.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agent::Output;
use crate::host::untrusted::printable;

/// Bytes of the structure.
const MAX_STRUCTURE: usize = 64 * 1024;
/// Bytes of a reason.
const MAX_REASON: usize = 300;

/// Data in few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// For a person or a model.
    pub text: String,
    /// For a program: a JSON object.
    pub structure: String,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    structure: Map<String, Value>,
}

impl Described {
    /// Reads an answer, whose text has at most so many characters.
    pub(super) fn read(output: &Output, max_chars: usize) -> Result<Self, &'static str> {
        if output.truncated {
            return Err("the answer is too long");
        }
        let answer: Answer =
            serde_json::from_str(&output.text).map_err(|_| "the answer is not one of our program's")?;
        // Lines are the text's; nothing else that moves a cursor or turns the reading direction is.
        let lines: Vec<String> = answer.text.lines().map(|line| printable(line, usize::MAX)).collect();
        let text: String = lines.join("\n").chars().take(max_chars).collect();
        let structure = Value::Object(answer.structure).to_string();
        if structure.len() > MAX_STRUCTURE {
            return Err("the answer is too long");
        }
        Ok(Self { text, structure })
    }
}

/// The last line of what a program has complained about.
pub(super) fn last_line(text: &str) -> String {
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => printable(line.trim(), MAX_REASON),
        None => "the program that reads the data failed".to_owned(),
    }
}
