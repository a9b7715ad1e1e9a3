//! The server as a scraper sees it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::telemetry::Metrics;

async fn ask(address: SocketAddr, line: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer and the end");
    answer
}

#[tokio::test]
async fn metrics_and_health_are_served_and_nothing_else() {
    let metrics = Arc::new(Metrics::new());
    let healthy = Arc::new(AtomicBool::new(true));
    let (shown, well) = (Arc::clone(&metrics), Arc::clone(&healthy));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = MetricsServer::bind(any, move || shown.encode(), move || well.load(Ordering::SeqCst));
    let server = server.await.expect("a free port");
    let address = server.address().expect("known");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));

    metrics.rejected("queue_full");
    let page = ask(address, "GET /metrics").await;
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("content-type: application/openmetrics-text; version=1.0.0"), "{page}");
    assert!(page.contains("rekindle_rejections_total{reason=\"queue_full\"} 1\n"), "{page}");
    assert!(ask(address, "GET /healthz").await.starts_with("HTTP/1.1 200 "));
    healthy.store(false, Ordering::SeqCst);
    assert!(ask(address, "GET /healthz").await.starts_with("HTTP/1.1 503 "));
    assert!(ask(address, "GET /").await.starts_with("HTTP/1.1 404 "));
    assert!(ask(address, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
    // Garbage costs its sender the connection, not the server.
    assert!(ask(address, "\u{1}\u{2}").await.starts_with("HTTP/1.1 400 "));
    assert!(ask(address, "GET /metrics").await.starts_with("HTTP/1.1 200 "));

    stop.send(()).expect("it serves");
    serving.await.expect("it ends");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out_for_good() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = MetricsServer::bind(any, || "x".to_owned(), || true).await.expect("a free port");
    let address = server.address().expect("known");
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    for mut silent in silent {
        let end = tokio::time::timeout(Duration::from_secs(60), silent.read(&mut [0])).await;
        assert!(matches!(end.expect("its time is over"), Ok(0) | Err(_)));
    }
    assert!(ask(address, "GET /healthz").await.starts_with("HTTP/1.1 200 "));
    serving.abort();
}

#[tokio::test]
async fn half_requests_make_room_for_a_whole_one() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = MetricsServer::bind(any, || "x".to_owned(), || true).await.expect("a free port");
    // Nobody is closed for being slow here.
    server.patience = Patience { header: Duration::from_secs(3600), whole: Duration::from_secs(3600) };
    let address = server.address().expect("known");
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let mut half = VecDeque::new();
    for _ in 0..3 * MAX_CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:").await.expect("written");
        half.push_back(stream);
    }
    let answer = tokio::time::timeout(Duration::from_secs(30), ask(address, "GET /metrics")).await;
    assert!(answer.expect("it does not wait for the others").starts_with("HTTP/1.1 200 "));
    // The oldest were closed for it, and no more than that are kept.
    for mut closed in half.drain(..2 * MAX_CONNECTIONS) {
        let end = tokio::time::timeout(Duration::from_secs(30), closed.read(&mut [0])).await;
        assert!(matches!(end.expect("it is closed"), Ok(0) | Err(_)));
    }
    serving.abort();
}
