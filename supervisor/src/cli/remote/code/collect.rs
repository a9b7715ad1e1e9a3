//! A whole run, for `--json`. Code may print for ever: what is kept is bounded, and says so.

use rekindle_api::v1::run_code_event::Event;
use serde::Serialize;

use crate::cli::remote::view;

/// Bytes that are kept of each stream, and of all results together.
const MAX_STREAM: usize = 8 << 20;
const MAX_RESULTS: usize = 64 << 20;

/// A run.
#[derive(Debug, Default, Serialize)]
pub struct Collected {
    context: Option<view::CodeContext>,
    stdout: String,
    stderr: String,
    results: Vec<view::CodeResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<view::CodeError>,
    execution_count: u64,
    duration: Option<String>,
    /// Something is missing.
    truncated: bool,
    #[serde(skip)]
    held: usize,
}

impl Collected {
    /// Takes an event; whether it was the last.
    pub fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Started(started) => self.context = started.context.map(Into::into),
            Event::Stdout(text) => self.truncated |= !append(&mut self.stdout, &text),
            Event::Stderr(text) => self.truncated |= !append(&mut self.stderr, &text),
            Event::Result(result) => {
                let size = prost::Message::encoded_len(&result);
                if self.held + size > MAX_RESULTS {
                    self.truncated = true;
                } else {
                    self.held += size;
                    self.results.push(result.into());
                }
            }
            Event::Error(error) => self.error = Some(error.into()),
            Event::End(end) => {
                self.execution_count = end.execution_count;
                self.duration = view::seconds(end.duration);
                return true;
            }
        }
        false
    }

    /// Whether the code failed.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }
}

/// Appends what fits; whether that was all.
fn append(to: &mut String, text: &str) -> bool {
    let mut room = MAX_STREAM.saturating_sub(to.len()).min(text.len());
    while !text.is_char_boundary(room) {
        room -= 1;
    }
    to.push_str(&text[..room]);
    room == text.len()
}

#[cfg(test)]
mod tests {
    //! What a program reads.

    use rekindle_api::v1;

    use super::*;

    #[test]
    fn a_run_is_one_object() {
        let mut run = Collected::default();
        let context = v1::CodeContext { id: "c".into(), language: 1, cwd: "/".into() };
        let result = v1::CodeResult { is_main: true, png: Some(vec![0].into()), ..v1::CodeResult::default() };
        let diagnosis = v1::Diagnosis {
            kind: "uncaught_exception".into(),
            subject: "E".into(),
            ..v1::Diagnosis::default()
        };
        let error = v1::CodeError {
            name: "E".into(),
            value: "v".into(),
            traceback: "t".into(),
            diagnosis: Some(diagnosis),
        };
        for event in [
            Event::Started(v1::CodeStarted { context: Some(context) }),
            Event::Stdout("a".into()),
            Event::Result(result),
            Event::Stdout("b".into()),
            Event::Error(error),
        ] {
            assert!(!run.take(event));
        }
        assert!(
            run.take(Event::End(v1::CodeEnd { execution_count: 2, ..v1::CodeEnd::default() }))
                && run.failed()
        );
        let told = serde_json::to_value(&run).expect("JSON");
        let expected = serde_json::json!({
            "context": {"id": "c", "language": "python", "cwd": "/"},
            "stdout": "ab", "stderr": "",
            "results": [{"is_main": true, "png": "AA=="}],
            "error": {"name": "E", "value": "v", "traceback": "t",
                      "diagnosis": {"kind": "uncaught_exception", "subject": "E"}},
            "execution_count": 2, "duration": null, "truncated": false,
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn output_without_end_is_cut_at_a_character() {
        let mut run = Collected::default();
        let long = "é".repeat(MAX_STREAM / 2 - 1) + "a";
        run.take(Event::Stdout(long));
        assert!(!run.truncated);
        run.take(Event::Stdout("é".into()));
        assert!(run.truncated && run.stdout.len() == MAX_STREAM - 1);
    }
}
