//! Every metric is recorded by something, and documented.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

const DOCS: &str = include_str!("../../../../docs/observability.md");

fn one_of_each() -> Metrics {
    let metrics = Metrics::new();
    metrics.start("parked", [("claim", Duration::from_millis(1)), ("renew", Duration::from_millis(2))]);
    metrics.execution("exited", Duration::from_millis(5));
    metrics.diagnosed("missing_module");
    metrics.rejected("queue_full");
    metrics.call("Create", "ok", Duration::from_millis(7));
    metrics.bytes(Direction::In, 11);
    metrics.connection("served", 3, 4);
    metrics.gateway("models", "passed", 8);
    metrics.audit_lost().inc();
    metrics.gauges(&Gauges {
        templates: vec![TemplateLevels {
            template: "python-node".into(),
            parked: 2,
            prespawned: 1,
            filling: 0,
        }],
        queued: 3,
        running: 4,
        paused: 5,
        restores_repeated: 6,
        cpu_seconds: 1.5,
        memory_bytes: 4096,
    });
    metrics
}

/// Name and type of every family that has a value.
fn families(text: &str) -> BTreeSet<(String, String)> {
    let family = |line: &str| {
        let mut words = line.strip_prefix("# TYPE ")?.split(' ');
        let (name, kind) = (words.next()?.to_owned(), words.next()?.to_owned());
        let name = match kind.as_str() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name,
        };
        let valued = text.lines().any(|line| !line.starts_with('#') && line.starts_with(&name));
        valued.then_some((name, kind))
    };
    text.lines().filter_map(family).collect()
}

#[test]
fn every_metric_is_recorded_by_something() {
    let text = one_of_each().encode();
    for line in [
        r#"rekindle_start_seconds_count{kind="parked",stage="claim"} 1"#,
        r#"rekindle_start_seconds_sum{kind="parked",stage="total"} 0.003"#,
        r#"rekindle_pool_machines{template="python-node",state="parked"} 2"#,
        concat!(r#"rekindle_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
        "rekindle_pool_queued 3",
        "rekindle_restores_repeated_total 6",
        r#"rekindle_sandboxes{state="running"} 4"#,
        r#"rekindle_sandboxes{state="paused"} 5"#,
        r#"rekindle_executions_total{outcome="exited"} 1"#,
        "rekindle_execution_seconds_count 1",
        r#"rekindle_diagnoses_total{code="missing_module"} 1"#,
        r#"rekindle_rejections_total{reason="queue_full"} 1"#,
        "rekindle_cgroup_cpu_seconds 1.5",
        "rekindle_cgroup_memory_bytes 4096",
        r#"rekindle_calls_total{method="Create",code="ok"} 1"#,
        r#"rekindle_call_seconds_count{method="Create"} 1"#,
        r#"rekindle_bytes_total{direction="in"} 11"#,
        r#"rekindle_network_connections_total{outcome="served"} 1"#,
        r#"rekindle_network_bytes_total{direction="up"} 3"#,
        r#"rekindle_network_bytes_total{direction="down"} 4"#,
        r#"rekindle_gateway_requests_total{service="models",outcome="passed"} 1"#,
        r#"rekindle_gateway_cost_total{service="models"} 8"#,
        "rekindle_audit_lost_total 1",
    ] {
        assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn what_is_documented_is_what_there_is() {
    let documented: BTreeSet<(String, String)> = DOCS
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `rekindle_")?.split('|').map(str::trim);
            let name = format!("rekindle_{}", cells.next()?.trim_end_matches('`'));
            Some((name, cells.next()?.to_owned()))
        })
        .collect();
    assert_eq!(
        documented,
        families(&one_of_each().encode()),
        "the table in docs/observability.md is the left one"
    );
}

#[test]
fn a_template_that_is_gone_is_no_longer_shown() {
    let metrics = one_of_each();
    metrics.gauges(&Gauges::default());
    let text = metrics.encode();
    assert!(!text.contains("python-node"), "{text}");
    assert!(text.contains("rekindle_pool_queued 0\n"));
}
