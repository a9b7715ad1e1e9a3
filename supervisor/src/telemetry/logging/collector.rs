//! For tests: a collector of OTLP that listens and does not answer, which is enough to see what is sent.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tracing_subscriber::layer::SubscriberExt as _;

use super::Logging;
use crate::config::server::TelemetrySection;

/// What reaches a collector of the spans that `spans` makes, up to the one that has this word in it.
pub(crate) async fn collected(last: &'static str, spans: impl FnOnce()) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("known");
    let settings =
        TelemetrySection { otlp_endpoint: Some(format!("http://{address}")), ..TelemetrySection::default() };
    let (layers, logging) = Logging::layers(&settings).expect("right");
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layers), spans);
    let reading = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        // An empty SETTINGS frame, or the client sends nothing but its preface.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.expect("written");
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while !has(&all, last.as_bytes()) {
            let count = stream.read(&mut piece).await.expect("read");
            assert!(count > 0, "it ended without {last}");
            all.extend_from_slice(&piece[..count]);
        }
        all
    });
    // Sends what waits.
    let ending = tokio::task::spawn_blocking(move || drop(logging));
    let sent = tokio::time::timeout(Duration::from_secs(60), reading).await;
    let sent = sent.expect("in time").expect("no panic");
    ending.await.expect("ended");
    sent
}

/// Whether these bytes are in what was sent.
pub(crate) fn has(all: &[u8], word: &[u8]) -> bool {
    all.windows(word.len()).any(|there| there == word)
}
