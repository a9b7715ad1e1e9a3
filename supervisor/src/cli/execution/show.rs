//! What a person reads of an execution that has ended.

use std::io::Write as _;

use rekindle_api::v1::{ExecuteResponse, Output};

use super::End;
use crate::cli::remote::{escape, print};

/// Prints how it ended, and before that its output, unless this was `shown` as it came.
pub fn show_end(response: &ExecuteResponse, end: &End, shown: bool) -> anyhow::Result<()> {
    if !shown {
        show(response)?;
    }
    if let Some(note) = end.note() {
        eprintln!("rekindle: {note}");
    }
    Ok(())
}

/// Prints what was collected, and what of it was cut.
fn show(response: &ExecuteResponse) -> anyhow::Result<()> {
    let text =
        |output: &Option<Output>| output.as_ref().map(|output| output.text.clone()).unwrap_or_default();
    print::text(&text(&response.stdout))?;
    std::io::stderr().lock().write_all(text(&response.stderr).as_bytes())?;
    tell_notes(response);
    Ok(())
}

/// Says what of the output was cut and where all of it is, and which connections were denied.
pub fn tell_notes(response: &ExecuteResponse) {
    for (name, output) in [("stdout", &response.stdout), ("stderr", &response.stderr)] {
        if let Some(note) = output.as_ref().and_then(|output| cut(name, output)) {
            eprintln!("rekindle: {note}");
        }
    }
    for note in denials(response) {
        eprintln!("rekindle: {note}");
    }
    if !response.warning.is_empty() {
        eprintln!("rekindle: {}", escape::text(&response.warning));
    }
}

/// What to say about connections that were denied: each host once.
fn denials(response: &ExecuteResponse) -> Vec<String> {
    let Some(network) = &response.network else { return Vec::new() };
    let mut said: Vec<String> = Vec::new();
    for denial in &network.denials {
        let note = escape::text(&denial.message);
        if !said.contains(&note) {
            said.push(note);
        }
    }
    said
}

/// What to say about an output that was shortened.
fn cut(name: &str, output: &Output) -> Option<String> {
    let shown = output.text.chars().count();
    let total = output.total_chars;
    let mut note = format!("{name} was shortened to {shown} of {total} characters");
    if output.spilled_path.is_empty() {
        note.push_str("; --stream or --output-limit shows more");
    } else {
        // A spilled file has a bound.
        let part = match output.total_bytes.saturating_sub(output.spilled_bytes) {
            0 => "all of it".to_owned(),
            _ => format!("the first {} of its {} bytes", output.spilled_bytes, output.total_bytes),
        };
        note.push_str(&format!("; `rekindle get` {part} from {}", escape::bytes(&output.spilled_path)));
    }
    output.truncated.then_some(note)
}

#[cfg(test)]
mod tests {
    //! What is said about output that was cut.

    use super::*;

    #[test]
    fn a_cut_says_where_the_rest_is() {
        let whole = Output { text: "abc".into(), total_chars: 3, ..Output::default() };
        assert_eq!(cut("stdout", &whole), None);
        let lost = Output { truncated: true, total_chars: 9, ..whole };
        let note = cut("stdout", &lost).expect("it was cut");
        assert_eq!(note, "stdout was shortened to 3 of 9 characters; --stream or --output-limit shows more");
        let kept = Output { spilled_path: bytes::Bytes::from_static(b"/x\x1b/out"), ..lost };
        let note = cut("stdout", &kept).expect("it was cut");
        assert!(note.ends_with("`rekindle get` all of it from /x\\u{1b}/out"), "{note}");
        let partly = Output { total_bytes: 9, spilled_bytes: 5, ..kept };
        let note = cut("stdout", &partly).expect("it was cut");
        assert!(note.ends_with("`rekindle get` the first 5 of its 9 bytes from /x\\u{1b}/out"), "{note}");
    }
}
