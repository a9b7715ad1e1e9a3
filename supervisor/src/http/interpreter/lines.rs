//! Events as lines of JSON.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::service::{CodeError, CodeEvent, CodeResult};

/// An event.
pub(super) fn event(event: &CodeEvent) -> Bytes {
    let printed = |kind: &str, text: &str| json!({"type": kind, "text": text, "timestamp": now()});
    let value = match event {
        CodeEvent::Count(count) => json!({"type": "number_of_executions", "execution_count": count}),
        CodeEvent::Stdout(text) => printed("stdout", text),
        CodeEvent::Stderr(text) => printed("stderr", text),
        // Its clients know no more of an error.
        CodeEvent::Error(CodeError { name, value, traceback, .. }) => {
            json!({"type": "error", "name": name, "value": value, "traceback": traceback})
        }
        CodeEvent::Result(result) => return shown(result),
    };
    line(&value)
}

/// Nothing has happened, and it goes on.
pub(super) fn keepalive() -> Bytes {
    Bytes::from_static(b"{\"type\": \"keepalive\"}\n")
}

/// Nothing follows.
pub(super) fn end() -> Bytes {
    Bytes::from_static(b"{\"type\": \"end_of_execution\"}\n")
}

fn line(value: &Value) -> Bytes {
    let mut line = value.to_string();
    line.push('\n');
    line.into()
}

/// A result. Its JSON was checked when it was read and goes on as it is, however large it would be in memory.
fn shown(result: &CodeResult) -> Bytes {
    let mut line = format!(r#"{{"type":"result","is_main_result":{}"#, result.is_main);
    let forms = result.texts.iter().map(|(name, text)| (name, Value::from(text.as_str()).to_string()));
    for (name, form) in forms.chain(result.json.iter().map(|(name, text)| (name, text.clone()))) {
        line.push_str(",\"");
        line.push_str(name);
        line.push_str("\":");
        line.push_str(&form);
    }
    line.push_str("}\n");
    line.into()
}

/// The time, as the kernels of notebooks tell it.
fn now() -> String {
    Timestamp::now().to_string()
}

#[cfg(test)]
mod tests {
    //! Lines as the SDKs read them.

    use super::*;

    #[test]
    fn every_event_is_one_line_of_json_with_a_type() {
        let result = CodeResult {
            is_main: true,
            texts: vec![("text", "a\n\"b\"".into())],
            json: vec![("data", r#"{"a": [1]}"#.into())],
        };
        let error =
            CodeError { name: "E".into(), value: "v\n".into(), traceback: "t".into(), diagnosis: None };
        for (told, kind) in [
            (event(&CodeEvent::Count(3)), "number_of_executions"),
            (event(&CodeEvent::Stdout("x\n".into())), "stdout"),
            (event(&CodeEvent::Stderr("\u{1e}".into())), "stderr"),
            (event(&CodeEvent::Error(error)), "error"),
            (event(&CodeEvent::Result(Box::new(result))), "result"),
            (keepalive(), "keepalive"),
            (end(), "end_of_execution"),
        ] {
            let (last, rest) = told.split_last().expect("a line");
            assert!(*last == b'\n' && !rest.contains(&b'\n'), "{told:?}");
            let value: Value = serde_json::from_slice(rest).expect("JSON");
            assert_eq!(value["type"], kind);
            match kind {
                "result" => assert_eq!(
                    (&value["text"], &value["data"]["a"][0], &value["is_main_result"]),
                    (&json!("a\n\"b\""), &json!(1), &json!(true))
                ),
                "stdout" => assert!(value["timestamp"].as_str().is_some_and(|at| at.ends_with('Z'))),
                _ => {}
            }
        }
    }
}
