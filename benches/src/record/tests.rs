//! Stages add up, and failures stay where they can be seen.

use rekindle::engine::Stage;

use super::*;

fn stages(stages: &[(&'static str, u64)]) -> Timings {
    let stage = |(name, ms): &(&'static str, u64)| Stage { name, took: Duration::from_millis(*ms) };
    Timings { stages: stages.iter().map(stage).collect() }
}

#[test]
fn the_stages_of_a_start_add_up_to_its_whole_time_and_what_no_lap_claims_is_shown() {
    let sample =
        Sample::start(&stages(&[("spawn", 2), ("load", 3), ("hello", 10)]), Duration::from_millis(17));
    assert!((sample.value - 17.0).abs() < 1e-9);
    assert_eq!(
        sample.stages.last().map(|stage| (stage.name.as_str(), stage.millis.round())),
        Some(("other", 2.0))
    );
    let sum: f64 = sample.stages.iter().map(|stage| stage.millis).sum();
    assert!((sum - sample.value).abs() < 1e-9);
}

#[test]
fn a_start_can_be_cut_before_a_stage_and_continued_with_one() {
    let whole = Sample::start(&stages(&[("hello", 10), ("gate", 5)]), Duration::from_millis(15));
    assert!((whole.before("gate").value - 10.0).abs() < 1e-9);
    assert!((whole.and("output", Duration::from_millis(4)).value - 19.0).abs() < 1e-9);
}

#[test]
fn the_means_of_stages_add_up_to_the_mean() {
    let mut record = Record::default();
    let kind = Kind::time(Scenario::Restore, "restore", "");
    for (spawn, hello) in [(1, 10), (3, 30)] {
        let whole = Duration::from_millis(spawn + hello);
        record.add(kind.clone(), Sample::start(&stages(&[("spawn", spawn), ("hello", hello)]), whole));
    }
    let series = record.find("restore").unwrap();
    let sum: f64 = series.stage_means().iter().map(|stage| stage.millis).sum();
    let values = series.values();
    assert!((sum - values.iter().sum::<f64>() / values.len() as f64).abs() < 1e-9);
}

#[test]
fn a_failure_is_counted_and_no_sample_is_made_of_it() {
    let mut record = Record::default();
    let kind = Kind::time(Scenario::Restore, "restore", "");
    record.fail(kind.clone(), "it broke".into());
    record.add(kind, Sample::number(1.0));
    let series = record.find("restore").unwrap();
    assert_eq!((series.samples.len(), series.failures.len()), (1, 1));
}
