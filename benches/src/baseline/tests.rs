//! Worse by more than the tolerance fails, better never does, and what was not measured is no pass.

use super::*;
use crate::stats::Figure;

const TEXT: &str = "
[qemu.minimal]
restore_over_floor = { value = 1.1, tolerance = 0.1, better = 'lower' }
upload_over_raw = { value = 0.8, tolerance = 0.25, better = 'higher' }
";

fn ratio(name: &str, value: f64) -> Ratio {
    Ratio { name: name.into(), what: String::new(), value: Figure::Value(value), promise: None }
}

fn passed(ratios: &[Ratio]) -> Vec<bool> {
    let verdicts = Baseline::parse(TEXT).unwrap().check("qemu", "minimal", ratios).unwrap();
    verdicts.iter().map(|verdict| verdict.passed).collect()
}

#[test]
fn a_ratio_may_get_worse_by_its_tolerance_and_no_further() {
    assert_eq!(passed(&[ratio("restore_over_floor", 1.2), ratio("upload_over_raw", 0.61)]), [true, true]);
    assert_eq!(passed(&[ratio("restore_over_floor", 1.3), ratio("upload_over_raw", 0.59)]), [false, false]);
}

#[test]
fn a_ratio_may_get_better_without_end() {
    assert_eq!(passed(&[ratio("restore_over_floor", 0.2), ratio("upload_over_raw", 9.0)]), [true, true]);
}

#[test]
fn what_was_not_measured_does_not_pass() {
    let unknown = Ratio { value: Figure::Unknown("too few samples".into()), ..ratio("upload_over_raw", 0.0) };
    let verdicts = Baseline::parse(TEXT).unwrap().check("qemu", "minimal", &[unknown]).unwrap();
    assert!(verdicts.iter().all(|verdict| !verdict.passed));
    assert!(verdicts[0].line.contains("was not measured"), "{}", verdicts[0].line);
    assert!(verdicts[1].line.contains("too few samples"), "{}", verdicts[1].line);
}

#[test]
fn an_engine_without_a_baseline_is_an_error() {
    assert!(Baseline::parse(TEXT).unwrap().check("firecracker", "minimal", &[]).is_err());
}

#[test]
fn a_misspelt_word_is_an_error() {
    assert!(
        Baseline::parse("[qemu.minimal]\nx = { value = 1.0, tolerence = 0.1, better = 'lower' }").is_err()
    );
}
