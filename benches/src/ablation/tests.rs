//! Every switch is measured, and a verdict says no more than the rounds do.

use rekindle::tuning::{GUEST, HOST};

use super::*;
use crate::record::{Kind, Record, Sample};
use crate::scenario::Scenario;

fn rounds(ratios: &[f64], samples: usize) -> Vec<Round> {
    // A host whose speed changes: every round is slower than the last.
    let round = |(index, ratio): (usize, &f64)| {
        let on = 100.0 * (index + 1) as f64;
        Round { on, off: on * ratio, samples }
    };
    ratios.iter().enumerate().map(round).collect()
}

#[test]
fn every_switch_has_a_case_and_every_case_a_switch_or_a_setting() {
    let switches: Vec<&str> = HOST.iter().map(|(name, _)| *name).chain(GUEST).collect();
    for name in &switches {
        assert_eq!(CASES.iter().filter(|case| case.name == *name).count(), 1, "{name}");
    }
    for case in CASES {
        assert_eq!(case.off == Off::Switch, switches.contains(&case.name), "{}", case.name);
        assert!(!case.figures.is_empty(), "{}", case.name);
    }
}

#[test]
fn ten_percent_by_rounds_is_enough_and_less_is_not() {
    let of = |ratios: &[f64]| Row::of("a", "restore_output", rounds(ratios, 10), None).verdict;
    assert_eq!(of(&[1.1, 1.1, 1.1]), Verdict::Moves);
    assert_eq!(of(&[1.09, 1.09, 1.09]), Verdict::DoesNot);
    assert_eq!(of(&[0.5, 1.0, 9.0]), Verdict::DoesNot, "one slow round decides nothing");
    assert_eq!(of(&[0.5, 1.3, 1.2]), Verdict::Moves);
    assert_eq!(of(&[0.5, 0.5, 0.5]), Verdict::DoesNot, "faster without");
}

#[test]
fn what_every_start_pays_for_may_cost_two_percent_by_rounds() {
    let of = |ratios: &[f64]| Row::of_what_it_costs("a", "restore_usable", rounds(ratios, 10), None).verdict;
    assert_eq!(of(&[0.981, 0.981, 0.5]), Verdict::Cheap);
    assert_eq!(of(&[1.2, 1.0, 1.1]), Verdict::Cheap, "faster with it");
    assert_eq!(of(&[0.97, 0.97, 1.5]), Verdict::Dear);
    let few = Row::of_what_it_costs("a", "restore_usable", rounds(&[1.0], 10), None).verdict;
    assert!(matches!(few, Verdict::Unknown(_)), "{few:?}");
}

#[test]
fn the_ratio_is_that_of_the_rounds_and_not_of_the_medians() {
    let rounds = vec![
        Round { on: 100.0, off: 200.0, samples: 10 },
        Round { on: 300.0, off: 600.0, samples: 10 },
        Round { on: 900.0, off: 90.0, samples: 10 },
    ];
    let row = Row::of("a", "restore_output", rounds, None);
    assert_eq!((row.on, row.off, row.ratio), (Some(300.0), Some(200.0), Some(2.0)));
}

#[test]
fn too_few_samples_a_failure_and_nothing_at_all_give_no_verdict() {
    let unknown = |row: Row| match row.verdict {
        Verdict::Unknown(reason) => reason,
        verdict => panic!("{verdict:?}"),
    };
    let few = Row::of("a", "s", rounds(&[2.0, 2.0], 14), None);
    assert_eq!(few.ratio, Some(2.0), "it is shown all the same");
    assert!(unknown(few).contains("28 samples"));
    let failed = Row::of("a", "s", rounds(&[2.0; 9], 10), Some("it broke".into()));
    assert_eq!(unknown(failed), "it broke");
    assert_eq!(unknown(Row::of("a", "s", Vec::new(), None)), "not measured");
}

#[test]
fn the_middle_of_a_run_needs_samples_without_a_failure() {
    let kind = |name| Kind::time(Scenario::Restore, name, "");
    let mut record = Record::default();
    for value in [3.0, 1.0, 2.0] {
        record.add(kind("restore"), Sample::number(value));
    }
    assert_eq!(measured(&record, "restore"), Ok((2.0, 3)));
    record.skip(Scenario::Restore, "no cold page cache");
    assert_eq!(measured(&record, "restore_cold"), Err("no cold page cache".to_owned()));
    record.fail(kind("restore"), "silent".into());
    assert_eq!(measured(&record, "restore"), Err("a sample failed: silent".to_owned()));
}

#[test]
fn the_table_has_a_line_for_every_figure() {
    let identity = rekindle::engine::EngineIdentity {
        engine: EngineKind::Qemu,
        version: "7.2".into(),
        accelerator: "tcg".into(),
        cpu: rekindle::host::cpu::CpuIdentity::read(),
    };
    let ablation = Ablation {
        tool: "rekindle-bench".into(),
        unix_seconds: 0,
        took_seconds: 1.0,
        host: crate::fingerprint::Fingerprint::take(&identity),
        template: "minimal".into(),
        rows: vec![
            Row::of("preopened", "restore_output", rounds(&[1.5; 3], 10), None),
            Row::of("settle", "restore_output", rounds(&[1.0; 3], 10), None),
            Row::of("working_set", "restore_cold_usable", Vec::new(), Some("a | b\nc".into())),
        ],
    };
    let text = ablation.markdown();
    assert!(text.contains("| `preopened` | `restore_output` | 200 | 300 | 1.50 | 3 | yes |"), "{text}");
    assert!(text.contains("| `settle` | `restore_output` | 200 | 200 | 1.00 | 3 | **no** |"), "{text}");
    assert!(text.contains("| `working_set` | `restore_cold_usable` | – | – | – | 0 | unknown: a / b; c |"));
    let dir = tempfile::tempdir().unwrap();
    ablation.write(dir.path()).unwrap();
    let file = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(file("ablation-qemu.md"), text);
    assert_eq!(serde_json::from_str::<Ablation>(&file("ablation-qemu.json")).unwrap(), ablation);
}
