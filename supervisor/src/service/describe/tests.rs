//! What is asked of the program, and what is believed of its answer.

use std::process::{Command, Stdio};

use rekindle_protocol::limits::MAX_STRING_BYTES;

use super::*;
use crate::agent::{Output, Usage};

fn finished(outcome: Outcome, stdout: &str, stderr: &str) -> Finished {
    let output = |text: &str| Output {
        text: text.to_owned(),
        truncated: false,
        total_bytes: text.len() as u64,
        total_chars: text.chars().count() as u64,
        spilled_path: None,
        spilled_bytes: 0,
    };
    let (stdout, stderr) = (output(stdout), output(stderr));
    Finished { outcome, stdout, stderr, usage: Usage::default(), diagnosis: None, interpreter: None }
}

fn answered(stdout: &str) -> Result<Described, ServiceError> {
    read(&finished(Outcome::Exited(0), stdout, ""), 200, TIME)
}

#[test]
fn the_program_fits_into_a_request() {
    assert!(PROGRAM.len() < MAX_STRING_BYTES, "{}", PROGRAM.len());
}

#[test]
fn an_answer_is_text_and_an_object() {
    let described =
        answered(r#"{"text": "a.json | 3 records\n  x: int", "structure": {"files": []}}"#).unwrap();
    assert_eq!(described.text, "a.json | 3 records\n  x: int");
    assert_eq!(described.structure, r#"{"files":[]}"#);
}

#[test]
fn no_answer_of_a_guest_is_longer_than_asked_for_or_moves_a_cursor() {
    let long = serde_json::json!({"text": "\u{1b}[2J\u{202e}".repeat(1000), "structure": {}}).to_string();
    let described = answered(&long).unwrap();
    assert_eq!(described.text.chars().count(), 200);
    assert!(described.text.starts_with(r"\u{1b}[2J\u{202e}"), "{}", described.text);
    let large = serde_json::json!({"text": "", "structure": {"x": "y".repeat(70_000)}}).to_string();
    assert!(matches!(answered(&large), Err(ServiceError::NotDescribed { .. })));
    let mut cut = finished(Outcome::Exited(0), r#"{"text": "", "structure": {}}"#, "");
    cut.stdout.truncated = true;
    assert!(matches!(read(&cut, 200, TIME), Err(ServiceError::NotDescribed { .. })));
}

#[test]
fn what_is_no_answer_is_an_error_and_never_a_panic() {
    let deep = "[".repeat(50_000);
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "{\"text\": 1, \"structure\": {}}",
        "{\"text\": \"\", \"structure\": []}",
        &deep,
    ] {
        assert!(matches!(answered(text), Err(ServiceError::NotDescribed { .. })), "{text:.20}");
    }
}

#[test]
fn the_end_of_the_program_is_the_reason() {
    let why =
        |outcome, stderr: &str| read(&finished(outcome, "", stderr), 200, TIME).unwrap_err().to_string();
    assert!(why(Outcome::Exited(1), "Traceback\nOSError: \u{1b}no\n\n").ends_with(r"OSError: \u{1b}no"));
    assert!(why(Outcome::Exited(1), "").contains("failed"));
    assert!(why(Outcome::OutOfMemory, "").contains("memory"));
    assert!(matches!(
        read(&finished(Outcome::TimedOut, "", ""), 200, TIME),
        Err(ServiceError::Deadline { after: TIME })
    ));
}

#[test]
fn paths_travel_as_bytes() {
    let spec = DescribeSpec {
        paths: vec![GuestPath::new(&b"\xff\n"[..]).unwrap()],
        user: GuestUser::User,
        max_chars: 0,
        loader: Some(GuestPath::new("load_data.py").unwrap()),
        timeout: None,
    };
    let request: serde_json::Value = serde_json::from_slice(&asked(&spec, 300, TIME)).unwrap();
    assert_eq!(request["paths"][0], "/wo=");
    assert_eq!(request["max_chars"], 300);
    assert_eq!(request["seconds"], 96.0);
    assert_eq!(request["loader"], "bG9hZF9kYXRhLnB5");
}

/// The program under its own tests, with this machine's Python: hostile files, bounds, what it finds, `load_data.py`.
#[test]
fn the_program_says_what_is_in_data() {
    if !python(&["-V"]) {
        rekindle_test_support::skip!("there is no python3 here");
    }
    run_tests("program_tests.py");
}

#[test]
fn values_of_parquet_and_excel_files_are_looked_at_and_loaded_where_their_libraries_are() {
    if !python(&["-c", "import openpyxl, pandas, pyarrow.parquet"]) {
        rekindle_test_support::skip!("python3 has no pandas, pyarrow and openpyxl here");
    }
    run_tests("program_values_tests.py");
}

fn python(words: &[&str]) -> bool {
    let ran = Command::new("python3").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

fn run_tests(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("describe.py");
    std::fs::write(&program, PROGRAM).unwrap();
    for (name, source) in [
        ("program_tests.py", include_str!("program_tests.py")),
        ("program_values_tests.py", include_str!("program_values_tests.py")),
    ] {
        std::fs::write(dir.path().join(name), source).unwrap();
    }
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/src/service/describe/fixtures");
    let mut tests = Command::new("python3");
    tests.arg("-B").arg(dir.path().join(name)).env("DESCRIBE_PROGRAM", &program).env("FIXTURES", fixtures);
    let ran = tests.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
