//! Ratios are made of rounds or of medians, and nothing is claimed that was not measured.

use super::*;
use crate::record::{Kind, Sample};
use crate::scenario::Scenario;

fn record(series: &[(&str, f64, usize)]) -> Record {
    let mut record = Record::default();
    for (name, value, n) in series {
        for _ in 0..*n {
            record.add(Kind::time(Scenario::Restore, name, ""), Sample::number(*value));
        }
    }
    record
}

fn find(ratios: &[Ratio], name: &str) -> Ratio {
    ratios.iter().find(|ratio| ratio.name == name).unwrap_or_else(|| panic!("{name}")).clone()
}

#[test]
fn a_promise_is_kept_or_broken_by_the_medians_of_one_run() {
    let kept = compare(&record(&[("restore", 110.0, 30), ("floor", 100.0, 30)]), EngineKind::Qemu);
    let kept = find(&kept, "restore_over_floor");
    assert!((kept.value.value().unwrap() - 1.1).abs() < 1e-9);
    assert_eq!(kept.promise.unwrap().kept, Some(true));
    let broken = compare(&record(&[("restore", 140.0, 30), ("floor", 100.0, 30)]), EngineKind::Qemu);
    assert_eq!(find(&broken, "restore_over_floor").promise.unwrap().kept, Some(false));
}

#[test]
fn a_promise_is_not_judged_by_too_few_samples() {
    let few = compare(&record(&[("restore", 110.0, 5), ("floor", 100.0, 30)]), EngineKind::Qemu);
    let few = find(&few, "restore_over_floor");
    assert_eq!(few.value.reason(), Some("restore has 5 samples, a promise needs 30"));
    assert_eq!(few.promise.unwrap().kept, None);
}

#[test]
fn a_failed_sample_takes_the_ratio_away() {
    let mut record = record(&[("restore", 110.0, 30), ("floor", 100.0, 30)]);
    record.fail(Kind::time(Scenario::Restore, "restore", ""), "it broke".into());
    let ratio = find(&compare(&record, EngineKind::Qemu), "restore_over_floor");
    assert!(ratio.value.value().is_none());
}

#[test]
fn more_is_better_where_that_is_the_promise() {
    let fast = compare(&record(&[("upload", 70.0, 30), ("raw_in", 100.0, 30)]), EngineKind::Qemu);
    assert_eq!(find(&fast, "upload_over_raw").promise.unwrap().kept, Some(true));
    let slow = compare(&record(&[("upload", 50.0, 30), ("raw_in", 100.0, 30)]), EngineKind::Qemu);
    assert_eq!(find(&slow, "upload_over_raw").promise.unwrap().kept, Some(false));
}

#[test]
fn a_promise_for_one_engine_is_not_made_for_another() {
    let record = record(&[("private", 20.0, 30), ("anonymous", 20.0, 30)]);
    let names = |engine| compare(&record, engine).into_iter().map(|ratio| ratio.name).collect::<Vec<_>>();
    assert_eq!(names(EngineKind::Qemu), ["private_mib"]);
    assert_eq!(names(EngineKind::Firecracker), ["anonymous_mib"]);
}

/// A machine that becomes half as fast, in the middle of the starts and early in the claims, which are measured at
/// another time. A boot and a claim have a hiccup now and then.
fn uneven() -> Record {
    let mut record = Record::default();
    let mut add =
        |scenario, name: &str, round: usize, value: f64, slow_from: usize, hiccup: Option<usize>| {
            let pace = if round < slow_from { 1.0 } else { 2.0 };
            let value = if Some(round % 7) == hiccup { 3.0 * value } else { value };
            record.add(Kind::time(scenario, name, ""), Sample::number(pace * value));
        };
    for round in 0..30 {
        add(Scenario::ColdBoot, "cold_boot_output", round, 500.0, 16, Some(1));
        add(Scenario::Restore, "restore_output", round, 100.0, 16, None);
        add(Scenario::ClaimParked, "claim_parked_output", round, 20.0, 8, Some(3));
    }
    record
}

#[test]
fn what_took_turns_is_compared_round_by_round() {
    let ratios = compare(&uneven(), EngineKind::Qemu);
    let value = |name| find(&ratios, name).value.value().unwrap();
    assert!((value("boot_over_restore_output") - 5.0).abs() < 1e-9, "both sides of a round were as fast");
    // Claims are measured by themselves: their rounds are not those of the restores.
    let medians = 40.0 / 100.0;
    assert!((value("claim_over_restore") - medians).abs() < 1e-9, "{}", value("claim_over_restore"));
}

#[test]
fn starts_take_turns_and_claims_do_not() {
    for (one, other, together) in [
        (Scenario::ColdBoot, Scenario::Restore, true),
        (Scenario::Upload, Scenario::Upload, true),
        (Scenario::Restore, Scenario::ClaimParked, false),
        (Scenario::Upload, Scenario::Download, false),
    ] {
        assert_eq!(one.takes_turns_with(other), together, "{one} and {other}");
        assert_eq!(other.takes_turns_with(one), together);
    }
}
