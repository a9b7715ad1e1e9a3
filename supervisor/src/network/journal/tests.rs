//! Whose a connection is, what is counted, and how much is kept.

use super::*;
use crate::network::denial::DenialReason;
use crate::network::traffic::{Spent, Way};

fn denial(host: &str) -> Denial {
    let reason = DenialReason::NotAllowed;
    Denial { reason, policy: "build".into(), rule: None, host: host.into(), port: 443 }
}

fn asked(execution: u64) -> Asked {
    Asked {
        owner: Owner { execution, ..Owner::default() },
        host: "example.com".into(),
        port: 443,
        policy: "build".into(),
    }
}

fn open() -> ConnectionState {
    ConnectionState::Open { rule: "tls example.com:443".into() }
}

/// Decides as a connection does: it is whose it says it is only where the host knows of it.
fn decide(journal: &Arc<Journal>, claimed: u64, state: ConnectionState) -> (OpenConnection, Arc<Traffic>) {
    let Owner { execution, sums, .. } = journal.owner(claimed);
    let traffic = Arc::new(Traffic::new(Arc::new(Spent::default()), sums));
    (journal.decided(asked(execution), Arc::clone(&traffic), state), traffic)
}

#[test]
fn executions_are_counted_apart_and_what_nobody_began_is_nobodys() {
    let journal = Arc::new(Journal::default());
    journal.begin(1);
    journal.begin(2);
    let (one, traffic) = decide(&journal, 1, open());
    traffic.moved(Way::Up, 10);
    traffic.moved(Way::Down, 1000);
    drop(decide(&journal, 2, ConnectionState::Denied(denial("a.example"))));
    drop(decide(&journal, 2, ConnectionState::Failed { why: "nobody".into() }));
    for stranger in [0, 3, u64::MAX] {
        drop(decide(&journal, stranger, ConnectionState::Denied(denial("b.example"))));
    }
    let first = NetworkSummary { connections: 1, up: 10, down: 1000, ..NetworkSummary::default() };
    assert_eq!(journal.so_far(1), first, "what is open counts already");
    drop(one);
    assert_eq!(journal.end(1), first);
    let second = journal.end(2);
    assert_eq!((second.connections, second.denied, second.failed, second.up), (2, 1, 1, 0));
    assert_eq!(second.denials, [denial("a.example")]);
    assert_eq!(journal.end(2), NetworkSummary::default(), "it is told once");
    assert_eq!(journal.counts(), (6, 4, 1));
    assert!(journal.lock().executions.is_empty(), "a stranger's number takes room");
    assert_eq!(
        (journal.owner(1).execution, journal.owner(3).execution),
        (0, 0),
        "what has ended, or never was, is nobody's"
    );
}

#[test]
fn a_flood_is_counted_and_the_latest_of_it_kept() {
    let journal = Arc::new(Journal::default());
    journal.begin(1);
    for number in 0..2 * KEPT {
        drop(decide(&journal, 1, ConnectionState::Denied(denial(&format!("{number}.example")))));
    }
    let summary = journal.end(1);
    assert_eq!((summary.connections, summary.denied), (2 * KEPT as u64, 2 * KEPT as u64));
    assert_eq!(summary.denials.len(), MAX_DENIALS);
    assert_eq!(summary.denials[0].host, "0.example");
    let mut seen = Vec::new();
    while let Some(view) = journal.after(seen.last().map_or(0, |view: &ConnectionView| view.revision)) {
        seen.push(view);
    }
    assert_eq!(seen.len(), KEPT);
    assert_eq!(seen[0].number, KEPT as u64 + 1);
}

#[test]
fn a_follower_hears_of_a_connection_when_it_is_let_through_and_when_it_ends() {
    let journal = Arc::new(Journal::default());
    let mut news = journal.news();
    let (connection, traffic) = decide(&journal, 0, open());
    assert!(news.has_changed().unwrap());
    let first = journal.after(0).expect("a change");
    assert_eq!((first.number, &first.state), (1, &open()));
    assert_eq!(journal.after(first.revision), None);
    news.mark_unchanged();
    traffic.moved(Way::Down, 5);
    connection.close(Some(denial("example.com")));
    drop(connection);
    assert!(news.has_changed().unwrap());
    let last = journal.after(first.revision).expect("another change");
    assert_eq!((last.number, last.down), (1, 5));
    assert_eq!(last.state.denial(), Some(&denial("example.com")));
    assert_eq!(journal.after(last.revision), None, "the end was told twice");
    assert_eq!(journal.counts(), (1, 1, 0));
}
