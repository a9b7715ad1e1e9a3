//! Lines as a program reads them, and settings that are refused.

use super::lines::written;
use super::*;

fn logged(format: LogFormat) -> String {
    written(format, || {
        let _in = tracing::info_span!("sandbox", sandbox = "s1").entered();
        tracing::info!(count = 2, "made ready");
    })
}

#[test]
fn a_line_tells_its_sandbox_in_both_formats() {
    let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).expect("one JSON line");
    assert_eq!((&line["message"], &line["count"]), (&"made ready".into(), &2.into()));
    assert_eq!(line["spans"][0]["sandbox"], "s1", "{line}");
    let text = logged(LogFormat::Text);
    assert!(text.contains("made ready") && text.contains("sandbox=\"s1\""), "{text}");
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let settings = TelemetrySection { log: "rekindle=loud".into(), ..TelemetrySection::default() };
    assert!(matches!(Logging::layers(&settings), Err(LoggingError::Filter { .. })));
    assert!(Logging::layers(&TelemetrySection::default()).is_ok());
}

#[cfg(feature = "otlp")]
#[test]
fn traces_without_a_runtime_are_an_error_and_not_a_panic() {
    let settings = TelemetrySection {
        otlp_endpoint: Some("http://127.0.0.1:4317".into()),
        ..TelemetrySection::default()
    };
    assert!(matches!(Logging::layers(&settings), Err(LoggingError::Traces { .. })));
}

#[cfg(feature = "otlp")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_spans_reach_a_collector_and_those_of_others_do_not() {
    use super::collector::{collected, has};

    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().expect("a trace");
    let origin = crate::telemetry::Origin { trace: Some(trace), step: None };
    let sent = collected("a-span-of-ours", move || {
        let call = tracing::info_span!(target: "rekindle::service", "a-call");
        origin.adopt(&call);
        call.in_scope(|| {});
        drop(call);
        tracing::info_span!(target: "h2::client", "a-foreign-span").in_scope(|| {});
        tracing::info_span!(target: "rekindle::service", "a-span-of-ours").in_scope(|| {});
    })
    .await;
    assert!(sent.starts_with(b"PRI * HTTP/2.0"));
    assert!(!has(&sent, b"a-foreign-span"));
    // A call is in its caller's trace, below its caller's span.
    assert!(has(&sent, &0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes()));
    assert!(has(&sent, &0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()));
}
