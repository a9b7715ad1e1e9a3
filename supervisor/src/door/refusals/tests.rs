//! How much strangers can write into the audit log.

use std::fs;

use prometheus_client::metrics::counter::Counter;
use serde_json::Value;

use super::*;

fn peer(address: &str) -> Peer {
    Peer::Tcp { address: Some(address.parse().expect("an address")) }
}

struct Log {
    dir: tempfile::TempDir,
    audit: Arc<Audit>,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let audit = Audit::to_file(&dir.path().join("audit"), Counter::default()).expect("a log");
        Self { dir, audit: Arc::new(audit) }
    }

    /// Who left how many out.
    fn left_out(&self) -> Vec<(String, u64)> {
        assert!(self.audit.flush());
        let text = fs::read_to_string(self.dir.path().join("audit")).expect("a log");
        let told = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!((&line["reason"], &line["decision"]), (&"too_many_refusals".into(), &"denied".into()));
            (line["peer"].as_str().expect("a peer").to_owned(), line["left_out"].as_u64().expect("a count"))
        });
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_has_so_many_lines_a_second_and_then_one_that_counts_the_rest() {
    let log = Log::new();
    let refusals = Refusals::new(Arc::clone(&log.audit));
    let loud = (0..1000).filter(|_| refusals.count(&peer("192.0.2.1:1"))).count();
    assert_eq!(loud as u64, MAX_LINES);
    assert!(refusals.count(&peer("192.0.2.2:1")), "another address has its own lines");
    tokio::time::sleep(2 * WINDOW).await;
    assert_eq!(log.left_out(), [("192.0.2.1".to_owned(), 1000 - MAX_LINES)]);
    assert!(refusals.count(&peer("192.0.2.1:1")), "a new second, new lines");
    tokio::time::sleep(2 * WINDOW).await;
    assert_eq!(log.left_out().len(), 1, "who left nothing out has no line more");
}

#[tokio::test(start_paused = true)]
async fn many_addresses_are_not_many_lines_either_and_the_last_window_is_told() {
    let log = Log::new();
    let refusals = Refusals::new(Arc::clone(&log.audit));
    let lines =
        (0..20_000_u32).filter(|n| refusals.count(&peer(&format!("10.{}.{}.1:1", n / 200, n % 200)))).count();
    assert_eq!(lines as u64, MAX_SOURCES as u64 + MAX_LINES);
    drop(refusals);
    assert_eq!(log.left_out(), [("several".to_owned(), 20_000 - lines as u64)]);
}
