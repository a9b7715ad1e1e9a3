//! What is recorded is recorded by the worker, and replayed by it, the next one included.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rekindle::network::{CassetteError, Cassettes, Egress};
use rekindle_protocol::frame;
use rekindle_protocol::wire::EgressVerdict;
use rekindle_protocol::wire::egress_verdict::Verdict;
use rekindle_test_support::wait::in_time;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::Place;

/// Answers every request with its number, and counts.
async fn web() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            // Made for a request that has not come yet, or was answered otherwise.
            let Ok(1..) = client.read(&mut head).await else { continue };
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: 8\r\nconnection: close\r\n\r\nanswer {number}");
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    (address, asked)
}

fn network(data: &Path, web: SocketAddr) -> Egress {
    let policies = "[record]\nmode = \"allow\"\nrecord = \"tape\"\nallow = [{ host = \"web.example.com\", protocol = \"http\" }]\n\
         budget = { requests = 3 }\n\
         [replay]\nmode = \"replay\"\ncassette = \"tape\"\n";
    let hosts = [("web.example.com".to_owned(), web)].into();
    let egress = Egress::new(&toml::from_str(policies).expect("policies"), &hosts).expect("a network");
    egress.with_cassettes(Cassettes::new(data))
}

/// Asks for a path, as a program does; all that is answered.
async fn get(place: &Place, path: &str) -> String {
    let mut guest = place.ask("web.example.com", 80).await.expect("a stream");
    let request = format!("GET {path} HTTP/1.1\r\nhost: web.example.com\r\nconnection: close\r\n\r\n");
    guest.write_all(request.as_bytes()).await.expect("asked");
    let verdict = in_time("a verdict", frame::read::<EgressVerdict>(&mut guest)).await.expect("a verdict");
    match verdict.expect("a verdict").verdict {
        Some(Verdict::Accepted(_)) => {}
        Some(Verdict::Denied(denied)) => return String::from_utf8(denied.reply.to_vec()).expect("text"),
        other => panic!("{other:?}"),
    }
    let mut answer = Vec::new();
    in_time("an answer", guest.read_to_end(&mut answer)).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn the_worker_records_what_servers_answer_and_answers_from_it() {
    let data = TempDir::new().expect("a directory");
    // As a host's is: nobody but its owner has a way into it.
    fs::set_permissions(data.path(), fs::Permissions::from_mode(0o700)).expect("closed");
    let (address, asked) = web().await;
    let recording = Place::of(network(data.path(), address), "record").await;
    let replay = recording.egress.policy("replay").expect("the policy");
    let missing = recording.egress.require(&replay);
    assert!(matches!(missing, Err(CassetteError::Missing { .. })), "{missing:?}");
    assert!(get(&recording, "/a").await.ends_with("answer 1"));
    // Another worker is another user, and goes on in the same cassette and with the same budget.
    recording.kill().await;
    let status = recording.status();
    assert!(get(&recording, "/a").await.ends_with("answer 2"));
    assert!(get(&recording, "/b").await.ends_with("answer 3"));
    let refused = get(&recording, "/c").await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("budget_spent"), "{refused}");
    let index = data.path().join("cassettes/tape/index.jsonl");
    let facts = fs::metadata(&index).expect("an index");
    assert_eq!(facts.permissions().mode() & 0o007, 0, "it is nobody else's");
    assert_eq!(fs::read_to_string(&index).expect("an index").lines().count(), 3);
    if nix::unistd::geteuid().is_root() {
        let group: u32 = status["Gid"].split_whitespace().next().expect("a group").parse().expect("a number");
        assert!(facts.uid() > 1_000_000_000 && facts.gid() == group, "written by the supervisor");
    }

    recording.egress.require(&replay).expect("a cassette");
    let replaying = Place::of(network(data.path(), address), "replay").await;
    for (path, answer) in [("/a", "answer 1"), ("/a", "answer 2"), ("/a", "answer 2"), ("/b", "answer 3")] {
        assert!(get(&replaying, path).await.ends_with(answer), "{path}");
    }
    let missed = get(&replaying, "/d").await;
    assert!(missed.starts_with("HTTP/1.1 403") && missed.contains("not_recorded"), "{missed}");
    assert_eq!(asked.load(Ordering::SeqCst), 3, "nobody was asked again");
}

#[tokio::test]
async fn a_cassette_that_was_recorded_elsewhere_is_replayed() {
    let (data, other) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let (address, asked) = web().await;
    let recording = Place::of(network(other.path(), address), "record").await;
    assert!(get(&recording, "/a").await.ends_with("answer 1"));
    // As an operator copies it: all of it is the operator's then.
    let copied = std::process::Command::new("cp").arg("-r").args([other.path(), data.path()]).status();
    assert!(copied.expect("cp").success());
    let data = data.path().join(other.path().file_name().expect("a name"));
    for file in ["cassettes", "cassettes/tape", "cassettes/tape/blobs", "cassettes/tape/index.jsonl"] {
        let mode = if file.ends_with("jsonl") { 0o600 } else { 0o700 };
        fs::set_permissions(data.join(file), fs::Permissions::from_mode(mode)).expect("closed");
    }
    let replaying = Place::of(network(&data, address), "replay").await;
    let policy = replaying.egress.policy("replay").expect("the policy");
    replaying.egress.require(&policy).expect("a cassette");
    assert!(get(&replaying, "/a").await.ends_with("answer 1"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
