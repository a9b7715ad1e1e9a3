//! What is written, what of it survives, and how much of it there may be.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::record::{Limits, NotRecorded};
use super::*;

fn name(text: &str) -> CassetteName {
    text.parse().unwrap()
}

fn key(target: &str) -> Key {
    Key {
        method: "GET".to_owned(),
        scheme: "https".to_owned(),
        host: "api.example.com".to_owned(),
        port: 443,
        target: target.to_owned(),
        range: None,
        request_sha256: digest_of(Sha256::new()),
    }
}

async fn record(cassettes: &Cassettes, target: &str, body: &[u8]) -> Result<(), NotRecorded> {
    let mut part = cassettes.part(&name("tape"))?;
    for piece in body.chunks(1000) {
        part.write(piece).await?;
    }
    part.finish(key(target), 0, 200, vec![("x-own".to_owned(), "yes".to_owned())]).await
}

fn answer(replay: &Replay, target: &str) -> Option<Vec<u8>> {
    let (entry, blob) = replay.next(&key(target))?;
    let body = fs::read(blob).unwrap();
    assert_eq!((entry.status, entry.bytes), (200, body.len() as u64));
    Some(body)
}

fn files(data: &Path) -> Vec<PathBuf> {
    let blobs = fs::read_dir(data.join("cassettes/tape/blobs")).unwrap();
    blobs.map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_name_is_no_path() {
    for fine in ["a", "eval-2", "0", &"a".repeat(63)] {
        assert!(fine.parse::<CassetteName>().is_ok(), "{fine}");
    }
    for bad in ["", "a/b", "..", "../a", "/a", "A", "a_b", "a.b", "-a", "a b", "a\0", &"a".repeat(64)] {
        assert_eq!(bad.parse::<CassetteName>(), Err(InvalidCassetteName), "{bad}");
        let json = serde_json::to_string(bad).unwrap();
        assert!(serde_json::from_str::<CassetteName>(&json).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn answers_to_the_same_request_come_in_their_turn_and_the_last_one_again() {
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    assert!(matches!(cassettes.replay(&name("tape")), Err(CassetteError::Missing { .. })));
    for (target, body) in [("/a", "one"), ("/b", "other"), ("/a", "two"), ("/a", "two")] {
        record(&cassettes, target, body.as_bytes()).await.unwrap();
    }
    // Each sandbox has its own way through it.
    for _ in 0..2 {
        let replay = cassettes.replay(&name("tape")).unwrap();
        for body in ["one", "two", "two", "two", "two"] {
            assert_eq!(answer(&replay, "/a").unwrap(), body.as_bytes());
        }
        assert_eq!(answer(&replay, "/b").unwrap(), b"other");
        assert!(replay.next(&key("/c")).is_none());
        for other in [
            Key { method: "POST".into(), ..key("/a") },
            Key { scheme: "http".into(), ..key("/a") },
            Key { host: "b.example.com".into(), ..key("/a") },
            Key { port: 8443, ..key("/a") },
            Key { range: Some("bytes=0-1".into()), ..key("/a") },
            Key { request_sha256: digest_of(Sha256::new_with_prefix("x")), ..key("/a") },
        ] {
            assert!(replay.next(&other).is_none(), "{other:?}");
        }
    }
    assert_eq!(files(data.path()).len(), 3, "a body is kept once");
    let listed = cassettes.list().unwrap();
    assert_eq!((listed.len(), listed[0].entries, listed[0].damaged), (1, 4, 0));
    assert!(cassettes.entries(&name("tape")).unwrap().iter().all(|(_, there)| *there));
}

#[tokio::test]
async fn what_a_crash_leaves_is_passed_over_and_the_next_one_repairs_it() {
    let data = TempDir::new().unwrap();
    let index = data.path().join("cassettes/tape/index.jsonl");
    record(&Cassettes::new(data.path()), "/a", b"one").await.unwrap();
    // A part of a body and a part of a line are what it can leave.
    let part = data.path().join("cassettes/tape/blobs/.part-left");
    fs::write(&part, "half of a bo").unwrap();
    let whole = fs::read(&index).unwrap();
    for torn in 1..whole.len() {
        let mut content = whole.clone();
        content.extend_from_slice(&whole[..torn]);
        fs::write(&index, content).unwrap();
        let cassettes = Cassettes::new(data.path());
        assert_eq!(cassettes.entries(&name("tape")).unwrap().len(), 1, "{torn}");
    }
    let cassettes = Cassettes::new(data.path());
    // One that is under way is nobody's to remove.
    let mut held = cassettes.part(&name("tape")).unwrap();
    held.write(b"three").await.unwrap();
    record(&cassettes, "/b", b"two").await.unwrap();
    assert!(!part.exists());
    held.finish(key("/c"), 0, 200, Vec::new()).await.unwrap();
    let replay = Cassettes::new(data.path()).replay(&name("tape")).unwrap();
    for (target, body) in [("/a", "one"), ("/b", "two"), ("/c", "three")] {
        assert_eq!(answer(&replay, target).unwrap(), body.as_bytes());
    }
    assert_eq!(Cassettes::new(data.path()).list().unwrap()[0].damaged, 0);
}

#[tokio::test]
async fn two_that_write_one_cassette_do_not_lose_a_line_of_each_others() {
    let data = TempDir::new().unwrap();
    let (one, other) = (Cassettes::new(data.path()), Cassettes::new(data.path()));
    for round in 0..4 {
        record(&one, &format!("/one/{round}"), b"one").await.unwrap();
        record(&other, &format!("/other/{round}"), b"other").await.unwrap();
    }
    assert_eq!(one.list().unwrap()[0].entries, 8);
    assert_eq!(one.list().unwrap(), other.list().unwrap());
}

#[tokio::test]
async fn what_is_given_up_leaves_nothing() {
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    let mut part = cassettes.part(&name("tape")).unwrap();
    part.write(b"half").await.unwrap();
    drop(part);
    assert!(files(data.path()).is_empty());
    assert!(matches!(cassettes.entries(&name("tape")), Err(CassetteError::Missing { .. })));
    assert!(cassettes.list().unwrap().is_empty());
}

#[tokio::test]
async fn a_cassette_has_bounds_and_goes_on_within_them() {
    let data = TempDir::new().unwrap();
    let limits = Limits { body: 2000, bytes: 5000, entries: 3 };
    let cassettes = Cassettes::with_limits(data.path(), limits);
    assert!(matches!(record(&cassettes, "/", &[1; 2001]).await, Err(NotRecorded::Body { most: 2000 })));
    record(&cassettes, "/", &[1; 2000]).await.unwrap();
    record(&cassettes, "/", &[1; 2000]).await.unwrap();
    assert!(matches!(record(&cassettes, "/", &[2; 2000]).await, Err(NotRecorded::Full { .. })));
    record(&cassettes, "/", &[3; 10]).await.unwrap();
    assert!(matches!(record(&cassettes, "/", &[3; 10]).await, Err(NotRecorded::Full { .. })));
    assert_eq!(files(data.path()).len(), 2, "what did not fit is gone");
    assert_eq!(cassettes.list().unwrap()[0].entries, 3);
}

#[tokio::test]
async fn a_line_that_somebody_else_wrote_is_no_way_to_another_file() {
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    record(&cassettes, "/a", b"one").await.unwrap();
    let index = data.path().join("cassettes/tape/index.jsonl");
    let line = fs::read_to_string(&index).unwrap();
    let digest = digest_of(Sha256::new_with_prefix("one"));
    let mut file = fs::OpenOptions::new().append(true).open(&index).unwrap();
    for other in ["../../../secret", "/etc/passwd", "", &digest.to_uppercase()] {
        file.write_all(line.replace(&digest, other).replace("\"/a\"", "\"/b\"").as_bytes()).unwrap();
    }
    file.write_all(b"{}\nnot json\n").unwrap();
    let cassettes = Cassettes::new(data.path());
    assert!(cassettes.replay(&name("tape")).unwrap().next(&key("/b")).is_none());
    assert_eq!(cassettes.list().unwrap()[0].damaged, 6);
}

#[tokio::test]
async fn one_that_is_removed_is_gone_and_can_be_recorded_anew() {
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    assert!(matches!(cassettes.remove(&name("tape")), Err(CassetteError::Missing { .. })));
    record(&cassettes, "/a", b"one").await.unwrap();
    cassettes.remove(&name("tape")).unwrap();
    assert!(cassettes.list().unwrap().is_empty());
    let left = fs::read_dir(data.path().join("cassettes/tape")).unwrap();
    let left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"], "its place, and nothing in it");
    assert!(matches!(cassettes.remove(&name("tape")), Err(CassetteError::Missing { .. })));
    record(&cassettes, "/a", b"two").await.unwrap();
    assert_eq!(answer(&cassettes.replay(&name("tape")).unwrap(), "/a").unwrap(), b"two");
}

#[tokio::test]
async fn no_link_in_a_cassette_leads_out_of_it() {
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    record(&cassettes, "/a", b"one").await.unwrap();
    let index = data.path().join("cassettes/tape/index.jsonl");
    let elsewhere = data.path().join("elsewhere");
    fs::rename(&index, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &index).unwrap();
    assert!(matches!(cassettes.entries(&name("tape")), Err(CassetteError::Missing { .. })));
    let before = fs::read(&elsewhere).unwrap();
    assert!(matches!(record(&cassettes, "/b", b"two").await, Err(NotRecorded::File(_))));
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
    let lock = data.path().join("cassettes/tape/lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(data.path().join("made"), &lock).unwrap();
    fs::rename(&elsewhere, &index).unwrap();
    assert!(matches!(cassettes.remove(&name("tape")), Err(CassetteError::File { .. })));
    assert!(!data.path().join("made").exists());
}

#[tokio::test]
async fn a_cassette_from_elsewhere_is_given_to_the_group_of_workers_and_nothing_else_is() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    if !nix::unistd::geteuid().is_root() {
        rekindle_test_support::skip!("giving files to a group needs root");
    }
    let group = 1_879_999_999;
    let data = TempDir::new().unwrap();
    let cassettes = Cassettes::new(data.path());
    record(&cassettes, "/a", b"one").await.unwrap();
    let tape = data.path().join("cassettes/tape");
    let (other, linked) = (data.path().join("other"), tape.join("blobs/linked"));
    fs::write(&other, "somebody's").unwrap();
    fs::hard_link(&other, &linked).unwrap();
    std::os::unix::fs::symlink(&other, tape.join("blobs/link")).unwrap();
    let facts = |path: &Path| {
        let facts = fs::metadata(path).unwrap();
        (facts.gid(), facts.permissions().mode() & 0o7777)
    };
    let before = facts(&other);
    cassettes.share([name("new")].iter(), Some(group)).unwrap();
    assert_eq!(facts(&data.path().join("cassettes")), (group, 0o750));
    assert_eq!(facts(&data.path().join("cassettes/new")), (group, 0o770));
    assert_ne!(facts(&tape).0, group, "nobody replays it yet");
    cassettes.open_to(&name("tape"), Some(group)).unwrap();
    assert_eq!((facts(&tape), facts(&tape.join("blobs"))), ((group, 0o770), (group, 0o770)));
    for file in [
        tape.join("index.jsonl"),
        tape.join("lock"),
        tape.join("blobs").join(digest_of(Sha256::new_with_prefix("one"))),
    ] {
        assert_eq!(facts(&file), (group, 0o660), "{}", file.display());
    }
    assert_eq!(facts(&other), before);
    assert_eq!(cassettes.list().unwrap().len(), 1, "what was not recorded is not listed");
}
