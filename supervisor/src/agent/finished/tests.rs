//! A result that contradicts itself is refused; one that is too long is shortened.

use proptest::prelude::*;
use rekindle_protocol::limits::MIN_OUTPUT_LIMIT;
use rekindle_protocol::output::Collector;
use rekindle_protocol::wire::execute_result::Outcome as Wire;
use rekindle_protocol::wire::{self, CollectedOutput, ExecuteResult};

use super::*;

fn text(text: &str) -> CollectedOutput {
    CollectedOutput {
        text: text.to_owned(),
        total_bytes: text.len() as u64,
        total_chars: text.chars().count() as u64,
        ..CollectedOutput::default()
    }
}

fn result() -> ExecuteResult {
    ExecuteResult {
        outcome: Some(Wire::Exited(0)),
        stdout: Some(text("out\n")),
        stderr: Some(text("")),
        usage: Some(wire::Usage { wall_micros: 5, cpu_micros: 3, peak_memory_bytes: 0 }),
        diagnosis: None,
        interpreter: 0,
    }
}

fn check(result: ExecuteResult) -> Result<Finished, &'static str> {
    Finished::from_wire(result, 100)
}

fn stdout(stdout: CollectedOutput) -> Result<Output, &'static str> {
    check(ExecuteResult { stdout: Some(stdout), ..result() }).map(|finished| finished.stdout)
}

#[test]
fn an_honest_result_comes_through() {
    let finished = check(result()).expect("honest");
    assert_eq!(finished.outcome, Outcome::Exited(0));
    assert_eq!(finished.stdout.text, "out\n");
    assert_eq!(finished.usage.peak_memory_bytes, None, "0 means that the guest cannot tell");
}

#[test]
fn impossible_ends_are_refused() {
    for outcome in [
        None,
        Some(Wire::Exited(256)),
        Some(Wire::Exited(u32::MAX)),
        Some(Wire::Signaled(0)),
        Some(Wire::Signaled(65)),
    ] {
        assert!(check(ExecuteResult { outcome, ..result() }).is_err(), "{outcome:?}");
    }
    assert!(check(ExecuteResult { stdout: None, ..result() }).is_err());
    assert!(check(ExecuteResult { stderr: None, ..result() }).is_err());
    assert!(check(ExecuteResult { usage: None, ..result() }).is_err());
}

#[test]
fn totals_that_contradict_the_text_are_refused() {
    let honest = text("héllo");
    assert!(stdout(honest.clone()).is_ok());
    let lies = [
        CollectedOutput { total_chars: 4, ..honest.clone() },
        CollectedOutput { total_chars: 6, ..honest.clone() },
        CollectedOutput { total_bytes: 4, ..honest.clone() },
        CollectedOutput { total_bytes: 21, ..honest.clone() },
        CollectedOutput { total_chars: u64::MAX, total_bytes: u64::MAX, ..honest.clone() },
        CollectedOutput { truncated: true, ..honest.clone() },
        CollectedOutput { spilled_bytes: 1, ..honest.clone() },
        CollectedOutput { spilled_path: "/var/full".into(), ..honest.clone() },
    ];
    for lie in lies {
        assert!(stdout(lie.clone()).is_err(), "{lie:?}");
    }
}

#[test]
fn a_kept_file_must_be_possible() {
    let honest = CollectedOutput {
        truncated: true,
        total_bytes: 900,
        total_chars: 900,
        spilled_path: "/var/full".into(),
        spilled_bytes: 900,
        ..text("head ... tail")
    };
    assert_eq!(
        stdout(honest.clone()).expect("honest").spilled_path,
        Some("/var/full".parse().expect("a path"))
    );
    let lies = [
        CollectedOutput { spilled_bytes: 901, ..honest.clone() },
        CollectedOutput { spilled_path: "relative".into(), ..honest.clone() },
        CollectedOutput { spilled_path: "/nul\0".into(), ..honest.clone() },
        CollectedOutput { spilled_path: vec![b'/'; 5000].into(), ..honest.clone() },
        CollectedOutput { spilled_path: Default::default(), ..honest.clone() },
    ];
    for lie in lies {
        assert!(stdout(lie.clone()).is_err(), "{lie:?}");
    }
}

#[test]
fn text_beyond_the_limit_is_shortened_by_the_host() {
    let output = stdout(text(&"é".repeat(100_000))).expect("shortened");
    assert_eq!(output.text.chars().count(), 100);
    assert!(output.truncated);
    assert_eq!(output.total_chars, 100_000);
}

#[test]
fn usage_is_bounded_so_that_sums_cannot_overflow() {
    let usage = wire::Usage { wall_micros: u64::MAX, cpu_micros: u64::MAX, peak_memory_bytes: u64::MAX };
    let finished = check(ExecuteResult { usage: Some(usage), ..result() }).expect("bounded");
    assert!(finished.usage.wall_micros.checked_mul(100_000).is_some());
    assert!(finished.usage.peak_memory_bytes.expect("some") <= 1 << 50);
}

#[test]
fn a_diagnosis_is_printable_and_an_unknown_one_is_none() {
    let diagnose = |kind, subject: &str| {
        let diagnosis = Some(wire::Diagnosis { kind, subject: subject.to_owned(), ..Default::default() });
        check(ExecuteResult { diagnosis, ..result() }).expect("a result").diagnosis
    };
    let found = diagnose(wire::DiagnosisKind::MissingModule.into(), "num\u{1b}py").expect("a diagnosis");
    assert_eq!((found.kind, &found.subject[..]), (DiagnosisKind::MissingModule, "num\\u{1b}py"));
    let long = diagnose(wire::DiagnosisKind::SyntaxError.into(), &"x".repeat(9999)).expect("a diagnosis");
    assert_eq!(long.subject.len(), 256);
    assert_eq!(diagnose(0, "x"), None);
    assert_eq!(diagnose(77, "x"), None);
}

#[test]
fn results_read_well_as_json() {
    let finished = check(result()).expect("honest");
    let json = serde_json::to_value(&finished).expect("json");
    assert_eq!(json["outcome"], serde_json::json!({ "exited": 0 }));
    assert_eq!(json["stdout"]["text"], "out\n");
    assert_eq!(serde_json::to_value(Outcome::TimedOut).expect("json"), "timed_out");
}

proptest! {
    #[test]
    fn whatever_an_honest_collector_says_is_accepted(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        limit in MIN_OUTPUT_LIMIT..200,
    ) {
        let mut collector = Collector::new(limit);
        collector.push(&bytes);
        let collected = collector.finish();
        let wire = CollectedOutput {
            text: collected.text.clone(),
            truncated: collected.truncated,
            total_bytes: collected.total_bytes,
            total_chars: collected.total_chars,
            ..CollectedOutput::default()
        };
        let output = Output::from_wire(wire, limit).expect("honest");
        prop_assert_eq!(output.text, collected.text);
        prop_assert_eq!(output.truncated, collected.truncated);
    }

    #[test]
    fn the_limit_holds_whatever_is_claimed(
        text in "\\PC{0,400}",
        truncated in any::<bool>(),
        total_bytes in any::<u64>(),
        total_chars in any::<u64>(),
        spilled_bytes in any::<u64>(),
    ) {
        let wire = CollectedOutput {
            text, truncated, total_bytes, total_chars, spilled_bytes, ..CollectedOutput::default()
        };
        if let Ok(output) = Output::from_wire(wire, 100) {
            let chars = output.text.chars().count();
            prop_assert!(chars <= 100);
            prop_assert!(output.total_chars >= chars as u64);
        }
    }
}

#[test]
fn a_kept_path_keeps_nothing_of_its_frame() {
    let frame = bytes::Bytes::from([&b"/kept"[..], &[0; 1000]].concat());
    let long = CollectedOutput {
        truncated: true,
        total_bytes: 1000,
        total_chars: 1000,
        spilled_path: frame.slice(..5),
        spilled_bytes: 1000,
        ..text("short")
    };
    let kept = stdout(long).expect("possible").spilled_path;
    assert_eq!(kept.as_ref().map(GuestPath::as_bytes), Some(&b"/kept"[..]));
    assert!(frame.is_unique(), "the frame is freed with the message");
}
