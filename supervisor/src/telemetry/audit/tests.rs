//! What is in the file, and what happens when it cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn entry(method: &str) -> Entry<'_> {
    Entry {
        time: "2026-01-02T03:04:05Z".parse().expect("a time"),
        tenant: Some("acme"),
        token: Some("ci"),
        method,
        sandbox: None,
        decision: Decision::Denied,
        reason: Some("scope"),
        trace: None,
        step: None,
        peer: Some("127.0.0.1:5"),
        left_out: None,
    }
}

#[test]
fn a_decision_is_one_line_of_json_that_a_caller_cannot_break() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let audit = Audit::to_file(&path, Counter::default()).expect("opened");
    audit.record(&entry("Create"));
    audit.record(&entry("x\n{\"decision\":\"allowed\"}"));
    assert!(audit.flush());
    let text = fs::read_to_string(&path).expect("written");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let right = serde_json::json!({
        "time": "2026-01-02T03:04:05Z", "tenant": "acme", "token": "ci", "method": "Create",
        "decision": "denied", "reason": "scope", "peer": "127.0.0.1:5",
    });
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0], right);
    assert_eq!(lines[1]["decision"], "denied");
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_old_file_is_added_to_and_a_rotated_one_let_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, old) = (dir.path().join("audit.log"), dir.path().join("audit.log.1"));
    fs::write(&path, "before\n").expect("written");
    let audit = Audit::to_file(&path, Counter::default()).expect("opened");
    audit.record(&entry("One"));
    assert!(audit.flush());
    fs::rename(&path, &old).expect("moved");
    audit.reopen();
    audit.record(&entry("Two"));
    // The end writes what is queued.
    drop(audit);
    let (first, second) =
        (fs::read_to_string(&old).expect("there"), fs::read_to_string(&path).expect("there"));
    assert!(first.starts_with("before\n") && first.contains("One") && !first.contains("Two"), "{first}");
    assert!(second.contains("Two") && !second.contains("One"), "{second}");
}

#[test]
fn a_line_the_disk_refuses_is_counted() {
    let lost = Counter::default();
    let audit = Audit::to_file(Path::new("/dev/full"), lost.clone()).expect("opened");
    audit.record(&entry("Create"));
    assert!(audit.flush());
    assert_eq!(lost.get(), 1);
}

#[test]
fn nobody_waits_for_a_full_queue_and_every_line_is_written_or_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a pipe");
    // A reader that does not read: the writer thread gets stuck when the pipe is full.
    let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).expect("opened");
    let lost = Counter::default();
    let audit = Audit::to_file(&pipe, lost.clone()).expect("opened");
    let all = 3 * QUEUE as u64;
    for _ in 0..all {
        audit.record(&entry("Create"));
    }
    assert!(lost.get() > 0, "the queue was full");
    // Reads what was written until the writer is done; the pipe has no end of its own, so a mark ends it.
    let counting = std::thread::spawn(move || {
        let (mut seen, mut text) = (0, [0; 4096]);
        loop {
            let count = io::Read::read(&mut reader, &mut text).expect("read");
            let piece = &text[..count];
            seen += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            if piece.ends_with(b"#") {
                return seen;
            }
        }
    });
    drop(audit);
    fs::write(&pipe, "#").expect("written");
    assert_eq!(counting.join().expect("counted") + lost.get(), all);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_with_its_path() {
    let error = Audit::to_file(Path::new("/nonexistent/audit.log"), Counter::default()).expect_err("refused");
    assert!(error.to_string().contains("/nonexistent/audit.log"));
}
