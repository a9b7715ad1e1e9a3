//! Lines as a program reads them, and settings that are refused.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(format: LogFormat) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::registry().with(log(format, move || writer.clone()));
    tracing::subscriber::with_default(subscriber, || {
        let _in = tracing::info_span!("sandbox", sandbox = "s1").entered();
        tracing::info!(count = 2, "made ready");
    });
    let bytes = lines.0.lock().expect("nobody panicked").clone();
    String::from_utf8(bytes).expect("text")
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
    use tokio::io::AsyncReadExt as _;
    let collector = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = collector.local_addr().expect("known");
    let settings =
        TelemetrySection { otlp_endpoint: Some(format!("http://{address}")), ..TelemetrySection::default() };
    let (layers, logging) = Logging::layers(&settings).expect("right");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().expect("a trace");
    let origin = crate::telemetry::Origin { trace: Some(trace), step: None };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layers), || {
        let call = tracing::info_span!(target: "rekindle::service", "a-call");
        origin.adopt(&call);
        call.in_scope(|| {});
        drop(call);
        tracing::info_span!(target: "h2::client", "a-foreign-span").in_scope(|| {});
        tracing::info_span!(target: "rekindle::service", "a-span-of-ours").in_scope(|| {});
    });
    // A collector that listens and does not answer is enough to see what is sent.
    let reading = tokio::spawn(async move {
        let (mut stream, _) = collector.accept().await.expect("somebody comes");
        // An empty SETTINGS frame, or the client sends nothing but its preface.
        tokio::io::AsyncWriteExt::write_all(&mut stream, &[0, 0, 0, 4, 0, 0, 0, 0, 0])
            .await
            .expect("written");
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        let has = |all: &[u8], word: &[u8]| all.windows(word.len()).any(|there| there == word);
        while !has(&all, b"a-span-of-ours") {
            let count = stream.read(&mut piece).await.expect("read");
            assert!(count > 0, "it ended without our span");
            all.extend_from_slice(&piece[..count]);
        }
        assert!(!has(&all, b"a-foreign-span"));
        // A call is in its caller's trace, below its caller's span.
        assert!(has(&all, &0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes()));
        assert!(has(&all, &0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()));
        all
    });
    // Sends what waits.
    let ending = tokio::task::spawn_blocking(move || drop(logging));
    let sent = tokio::time::timeout(std::time::Duration::from_secs(60), reading).await;
    let sent = sent.expect("in time").expect("no panic");
    assert!(sent.starts_with(b"PRI * HTTP/2.0"));
    ending.await.expect("ended");
}
