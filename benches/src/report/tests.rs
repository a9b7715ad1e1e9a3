//! What is written is what was measured, and nothing that was not.

use rekindle::engine::{EngineKind, Stage, Timings};
use std::time::Duration;

use super::*;
use crate::ratio;
use crate::record::{Kind, PageCache, Sample, Unit};
use crate::scenario::Scenario;

fn report(n: usize) -> Report {
    let mut record = Record::default();
    for index in 0..n {
        let extra = u64::try_from(index % 5).unwrap();
        for (scenario, name, hello) in
            [(Scenario::Floor, "floor_usable", 50), (Scenario::Restore, "restore_output", 60)]
        {
            let stages = vec![
                Stage { name: "spawn", took: Duration::from_millis(2) },
                Stage { name: "hello", took: Duration::from_millis(hello + extra) },
            ];
            let whole = Duration::from_millis(hello + extra + 3);
            let kind = Kind::time(scenario, name, "to the first output").with_cache(PageCache::Hot);
            record.add(kind, Sample::start(&Timings { stages }, whole));
        }
        let number = |value| Sample::number(value);
        record.add(Kind::time(Scenario::Restore, "restore", "x"), number(61.0));
        record.add(Kind::time(Scenario::Floor, "floor", "x"), number(50.0));
        record.add(Kind::time(Scenario::Burst, "burst_1", "x"), number(80.0));
        record.add(Kind::time(Scenario::Burst, "burst_8", "x"), number(300.0));
        record.add(Kind::time(Scenario::Bubblewrap, "bubblewrap_output", "x"), number(8.0));
        record.add(Kind::time(Scenario::Density, "private", "x").in_unit(Unit::Mebibytes), number(21.0));
    }
    record.fail(
        Kind::time(Scenario::FirstNode, "first_node", "x"),
        "node said <no> & [left](javascript:it)".into(),
    );
    record.skip(Scenario::Container, "crun is not installed");
    let identity = rekindle::engine::EngineIdentity {
        engine: EngineKind::Qemu,
        version: "7.2.22".into(),
        accelerator: "tcg".into(),
        cpu: rekindle::host::cpu::CpuIdentity::read(),
    };
    Report {
        schema: SCHEMA,
        tool: "rekindle-bench".into(),
        unix_seconds: 1_767_225_599,
        took_seconds: 12.0,
        host: crate::fingerprint::Fingerprint::take(&identity),
        template: "minimal".into(),
        vcpus: 2,
        memory_mib: 512,
        ratios: ratio::compare(&record, EngineKind::Qemu),
        record,
    }
}

#[test]
fn the_json_can_be_read_again_and_is_the_same() {
    let report = report(30);
    let text = serde_json::to_string(&report).unwrap();
    let again: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(again, report);
    assert_eq!(again.schema, 1);
}

#[test]
fn three_files_are_written() {
    let dir = tempfile::tempdir().unwrap();
    report(30).write(&dir.path().join("deep/down")).unwrap();
    for name in ["report.json", "report.md", "report.html"] {
        assert!(dir.path().join("deep/down").join(name).metadata().unwrap().len() > 500, "{name}");
    }
}

#[test]
fn a_failure_and_what_was_left_out_are_in_every_form() {
    let report = report(30);
    for text in [table::render(&report), markdown::render(&report)] {
        assert!(text.contains("node said <no> & [left](javascript:it)"), "{text}");
        assert!(text.contains("crun is not installed"), "{text}");
    }
    let page = html::render(&report).unwrap();
    assert!(
        page.contains("node said &lt;no&gt; &amp; left"),
        "what a guest says cannot become part of the page"
    );
    assert!(!page.contains("javascript:"), "nor a link on it");
    assert!(page.contains("crun is not installed"));
}

#[test]
fn a_number_that_too_few_samples_support_is_nowhere() {
    let few = report(5);
    let text = table::render(&few);
    assert!(text.contains("p95 needs 20 samples, there are 5"), "{text}");
    let restore = text.lines().find(|line| line.starts_with("restore ")).unwrap();
    assert_eq!(restore.matches('–').count(), 2, "neither p95 nor p99: {restore}");
    assert!(text.contains("unknown  restore_over_floor"), "{text}");
}

#[test]
fn the_page_needs_nothing_else_and_its_elements_close() {
    // The name of a namespace is not loaded.
    let page = html::render(&report(30)).unwrap().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(page.contains("<svg"));
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for element in ["svg", "table", "body", "tr", "td", "text"] {
        let opened =
            page.matches(&format!("<{element} ")).count() + page.matches(&format!("<{element}>")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""), "every place in a plot is a number");
}

#[test]
fn stages_are_shown_with_their_sum() {
    let text = markdown::render(&report(30));
    let line = text.lines().find(|line| line.starts_with("- `restore_output`")).unwrap();
    assert!(line.contains("spawn 2.00 + hello 62.0 + other 1.00 = 65.0"), "{line}");
}
