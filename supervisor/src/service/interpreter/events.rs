//! What a run tells, read from the messages of a context's program.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::service::diagnosis::Diagnosis;

/// What a run tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeEvent {
    /// It is the context's run of this number.
    Count(u64),
    /// It printed to standard output.
    Stdout(String),
    /// It printed to standard error.
    Stderr(String),
    /// It has shown something, or this is its value.
    Result(Box<CodeResult>),
    /// It failed.
    Error(CodeError),
}

/// Why code failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeError {
    /// The kind of error, in the words of the language.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Where it came from.
    pub traceback: String,
    /// What went wrong, in the codes that executions have too.
    pub diagnosis: Option<Diagnosis>,
}

/// A value in all the forms that it has. Images are base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeResult {
    /// It is the value of the code's last expression, not something that was shown on the way.
    pub is_main: bool,
    /// Forms that are text, by the names E2B has for them.
    pub texts: Vec<(&'static str, String)>,
    /// Forms that are JSON, on one line, by the same names.
    pub json: Vec<(&'static str, String)>,
}

/// A message as it was sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    id: Option<u64>,
    execution_count: Option<u64>,
    is_main_result: bool,
    name: Option<String>,
    value: Option<String>,
    traceback: Option<String>,
    text: Option<String>,
    html: Option<String>,
    markdown: Option<String>,
    svg: Option<String>,
    png: Option<String>,
    jpeg: Option<String>,
    pdf: Option<String>,
    latex: Option<String>,
    javascript: Option<String>,
    json: Option<String>,
    data: Option<String>,
    chart: Option<String>,
    extra: Option<String>,
}

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Something about the run.
    Event(CodeEvent),
    /// What follows belongs to this run.
    Begin(u64),
    /// Nothing of this run follows.
    End(u64),
    /// Nothing that anybody needs to know.
    Nothing,
}

/// Reads a message. What makes no sense says nothing.
pub(super) fn read(bytes: &[u8]) -> Said {
    let Ok(message) = serde_json::from_slice::<Message>(bytes) else { return Said::Nothing };
    let id = message.id;
    match (message.kind.as_str(), id) {
        ("begin", Some(id)) => Said::Begin(id),
        ("end", Some(id)) => Said::End(id),
        ("number_of_executions", _) => {
            message.execution_count.map_or(Said::Nothing, |count| Said::Event(CodeEvent::Count(count)))
        }
        ("result", _) => Said::Event(CodeEvent::Result(Box::new(message.result()))),
        ("error", _) => {
            let Message { name, value, traceback, .. } = message;
            Said::Event(CodeEvent::Error(CodeError {
                name: name.unwrap_or_default(),
                value: value.unwrap_or_default(),
                traceback: traceback.unwrap_or_default(),
                diagnosis: None,
            }))
        }
        _ => Said::Nothing,
    }
}

impl Message {
    fn result(self) -> CodeResult {
        let texts = [
            ("text", self.text),
            ("html", self.html),
            ("markdown", self.markdown),
            ("svg", self.svg),
            ("png", self.png),
            ("jpeg", self.jpeg),
            ("pdf", self.pdf),
            ("latex", self.latex),
            ("javascript", self.javascript),
        ];
        let json = [("json", self.json), ("data", self.data), ("chart", self.chart), ("extra", self.extra)];
        let given = |(name, form): (&'static str, Option<String>)| Some((name, form?));
        CodeResult {
            is_main: self.is_main_result,
            texts: texts.into_iter().filter_map(given).collect(),
            json: json.into_iter().filter_map(given).filter(|(_, form)| is_json_line(form)).collect(),
        }
    }
}

/// Whether a text is JSON and fits on a line: it goes on as it is.
fn is_json_line(text: &str) -> bool {
    !text.contains(['\n', '\r']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    //! Messages, and what is none.

    use super::*;

    #[test]
    fn messages_are_read_and_what_makes_no_sense_says_nothing() {
        assert_eq!(read(br#"{"type":"begin","id":3}"#), Said::Begin(3));
        assert_eq!(read(br#"{"type":"end","id":3}"#), Said::End(3));
        let count = CodeEvent::Count(2);
        assert_eq!(read(br#"{"type":"number_of_executions","execution_count":2}"#), Said::Event(count));
        for wrong in
            ["", "[]", "{", r#"{"type":"begin"}"#, r#"{"type":"begin","id":-1}"#, r#"{"type":7}"#, "1"]
        {
            assert_eq!(read(wrong.as_bytes()), Said::Nothing, "{wrong}");
        }
        let error = CodeError { name: "E".into(), value: "v".into(), ..CodeError::default() };
        let message = br#"{"type":"error","name":"E","value":"v"}"#;
        assert_eq!(read(message), Said::Event(CodeEvent::Error(error)));
    }

    #[test]
    fn forms_that_are_no_json_on_one_line_are_left_out() {
        let message = r#"{"type":"result","is_main_result":true,"text":"a","json":"{\"a\": [1]}","data":"{","extra":"[\n1]"}"#;
        let Said::Event(CodeEvent::Result(result)) = read(message.as_bytes()) else { panic!("a result") };
        assert!(result.is_main);
        assert_eq!(result.texts, [("text", "a".to_owned())]);
        assert_eq!(result.json, [("json", r#"{"a": [1]}"#.to_owned())]);
    }
}
