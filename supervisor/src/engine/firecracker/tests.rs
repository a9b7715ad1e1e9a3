//! What needs no monitor.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::find::{FindError, find_programs};
use super::version::{FirecrackerVersion, Verdict};
use crate::engine::IoThrottle;

#[test]
fn only_patches_of_the_tested_minor_version_are_accepted() {
    let verdict = |line: &str| FirecrackerVersion::parse(line).map(FirecrackerVersion::verdict);
    assert_eq!(verdict("Firecracker v1.16.1"), Some(Verdict::Accepted));
    assert_eq!(verdict("Firecracker v1.16.9"), Some(Verdict::Accepted));
    assert_eq!(verdict("Firecracker v1.16.0"), Some(Verdict::TooOld));
    assert_eq!(verdict("Firecracker v1.9.1"), Some(Verdict::TooOld));
    assert_eq!(verdict("Firecracker v1.17.0-dev"), Some(Verdict::Untested));
    assert_eq!(verdict("Firecracker v2.0.0"), Some(Verdict::Untested));
    assert_eq!(verdict("QEMU emulator version 7.2"), None);
}

#[test]
fn the_kernel_is_told_where_the_agent_listens_and_whom_it_tells() {
    let line = super::launch::command_line(&["extra=1".to_owned()]);
    assert!(line.contains("rekindle.transport=vsock:1024 rekindle.ready=1025"), "{line}");
    assert!(line.contains("root=/dev/vda rootfstype=erofs ro init=/sbin/rekindle-agent"), "{line}");
    assert!(line.ends_with(" extra=1"), "{line}");
}

#[test]
fn limits_become_buckets_that_fill_in_a_second_and_none_is_none() {
    let none = IoThrottle::default();
    assert_eq!(super::launch::rate_limiter(none), None);
    let limits = IoThrottle { bytes_per_second: Some(1 << 20), operations_per_second: None };
    let limiter = super::launch::rate_limiter(limits).expect("limited");
    assert_eq!(limiter.bandwidth.map(|bucket| (bucket.size, bucket.refill_time)), Some((1 << 20, 1_000)));
    assert_eq!(limiter.ops, None);
}

#[test]
fn counters_that_tell_of_trouble_are_summed_up_in_few_words_and_the_rest_is_left_out() {
    let lines = br#"nd":{"panic_count":9}}
{"utc_timestamp_ms":1,"vmm":{"panic_count":0},"vsock":{"rx_queue_event_fails":2,"rx_bytes_count":77}}
{"utc_timestamp_ms":2,"vsock":{"rx_queue_event_fails":1},"seccomp":{"num_faults":1},"odd":[1]}
{"half":{"#;
    assert_eq!(super::metrics::trouble(lines), "vsock.rx_queue_event_fails=3 seccomp.num_faults=1");
    assert_eq!(super::metrics::trouble(b""), "");
    let many: Vec<String> = (0..100).map(|n| format!("\"some_fails_{n}\":1")).collect();
    let line = format!("{{\"group\":{{{}}}}}\n", many.join(","));
    assert!(super::metrics::trouble(line.as_bytes()).len() <= 400);
}

#[test]
fn a_missing_program_and_one_without_its_jailer_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("firecracker");
    let error = find_programs(Some(&path), false).expect_err("missing");
    assert!(matches!(error, FindError::Missing { what: "firecracker", .. }), "{error}");
    assert!(error.to_string().contains("\nhint: "), "{error}");
    program(&path, "Firecracker v1.16.1");
    let error = find_programs(Some(&path), false).expect_err("no jailer");
    assert!(matches!(error, FindError::Missing { what: "jailer", .. }), "{error}");
}

#[test]
fn versions_that_do_not_fit_are_refused_and_newer_ones_accepted_only_when_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, jailer) = (dir.path().join("firecracker"), dir.path().join("jailer"));
    program(&path, "Firecracker v1.17.0");
    program(&jailer, "Jailer v1.17.0");
    let error = find_programs(Some(&path), false).expect_err("untested");
    assert!(matches!(error, FindError::Untested { .. }), "{error}");
    assert!(error.to_string().contains("REKINDLE_FIRECRACKER_UNTESTED=1"), "{error}");
    assert_eq!(find_programs(Some(&path), true).expect("asked for").version.minor, 17);
    program(&path, "Firecracker v1.16.1");
    let error = find_programs(Some(&path), false).expect_err("not one release");
    assert!(matches!(error, FindError::Mismatch { .. }), "{error}");
    program(&path, "something else");
    let error = find_programs(Some(&path), false).expect_err("not it");
    assert!(matches!(error, FindError::NotFirecracker { .. }), "{error}");
}

/// A script that answers `--version`.
fn program(path: &Path, line: &str) {
    // Written aside: a program that is open for writing cannot be run.
    let aside = path.with_extension("new");
    fs::write(&aside, format!("#!/bin/sh\necho '{line}'\n")).expect("written");
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).expect("executable");
    fs::rename(&aside, path).expect("renamed");
}

#[test]
fn a_monitor_that_writes_without_end_is_read_for_a_bounded_time() {
    let lines = crate::host::process::Tail::new(64 * 1024);
    let mut reads = 0;
    super::metrics::take_in(&lines, |buffer| {
        reads += 1;
        assert!(reads < 1000, "it must stop by itself");
        buffer.fill(b'x');
        Ok(buffer.len())
    });
    assert_eq!(lines.bytes().len(), 64 * 1024, "what is kept has been read");
}

#[test]
fn a_monitor_that_makes_up_counters_is_summed_up_in_printable_words_and_in_little_time() {
    let names: Vec<String> = (0..4_000).map(|n| format!("\"fail{n}\":1")).collect();
    let line = format!("{{\"\\u001b[2J\\u202e\":{{{}}}}}\n", names.join(","));
    let text = super::metrics::trouble(line.as_bytes());
    assert!(text.len() <= 400 && !text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    let many: Vec<u8> =
        (0..5_000).flat_map(|n| format!("{{\"g\":{{\"fail{n}\":1}}}}\n").into_bytes()).collect();
    assert!(super::metrics::trouble(&many).len() <= 400);
}
