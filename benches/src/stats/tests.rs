//! Percentiles are samples, and what too few samples support is not said.

use super::*;

fn up_to(n: u32) -> Vec<f64> {
    (1..=n).map(f64::from).collect()
}

#[test]
fn a_percentile_is_one_of_the_samples() {
    let sorted = up_to(100);
    assert_eq!(percentile(&sorted, 50), Some(50.0));
    assert_eq!(percentile(&sorted, 95), Some(95.0));
    assert_eq!(percentile(&sorted, 99), Some(99.0));
    assert_eq!(percentile(&[7.0], 50), Some(7.0));
    assert_eq!(percentile(&[], 50), None);
}

#[test]
fn a_percentile_that_too_few_samples_support_is_a_reason() {
    let summary = Summary::of(&up_to(30));
    assert_eq!(summary.p95, Figure::Value(29.0));
    assert_eq!(summary.p99.value(), None);
    assert_eq!(summary.p99.reason(), Some("p99 needs 100 samples, there are 30"));
    assert!(Summary::of(&up_to(19)).p95.value().is_none());
    assert!(Summary::of(&up_to(100)).p99.value().is_some());
}

#[test]
fn nothing_measured_is_nothing_said() {
    let summary = Summary::of(&[]);
    assert_eq!(summary.n, 0);
    for figure in [&summary.p50, &summary.p95, &summary.p99, &summary.max, &summary.mad] {
        assert!(figure.value().is_none(), "{figure:?}");
    }
}

#[test]
fn one_slow_sample_is_counted_and_does_not_move_the_spread() {
    let mut samples: Vec<f64> = (0..40).map(|n| 100.0 + f64::from(n % 5)).collect();
    let calm = Summary::of(&samples);
    assert_eq!(calm.outliers, 0);
    samples.push(900.0);
    let hit = Summary::of(&samples);
    assert_eq!(hit.outliers, 1);
    assert_eq!(hit.n, 41, "it is counted, not removed");
    assert_eq!(hit.max, Figure::Value(900.0));
    assert!((hit.mad.value().unwrap() - calm.mad.value().unwrap()).abs() < 1.0);
}

#[test]
fn the_order_of_samples_does_not_matter() {
    assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Summary::of(&[1.0, 2.0, 3.0]));
}
