//! Short calls against agents that answer wrongly, late, half or not at all.

use bytes::Bytes;
use rekindle_protocol::wire::{
    Chunk, ErrorCode, FileInfo, FileKind, FileMetadata, Listing, PingRequest, Pong, RestoreRequest, Started,
};
use tokio::io::AsyncWriteExt as _;

use super::super::fake::{Fake, SOON, connected, done, error, hello_of, say};
use super::super::{FileKind as Kind, GuestPath, GuestUser, MkdirOptions, TransferPatience, UploadOptions};
use super::*;

/// Runs a call against an agent that answers its request with these replies.
async fn answered<T>(
    call: impl AsyncFnOnce(AgentClient) -> Result<T, AgentError>,
    replies: Vec<Reply>,
) -> Result<T, AgentError> {
    let (client, mut agent) = connected().await;
    let answer = async {
        let (_, mut stream) = agent.next().await;
        for reply in replies {
            say(&mut stream, reply).await;
        }
        // Held open: an answer must not need the end of the stream to be seen.
        stream
    };
    let (outcome, _stream) = tokio::join!(call(client), answer);
    outcome
}

fn path(text: &str) -> GuestPath {
    text.parse().expect("a path")
}

fn file(name: &[u8]) -> FileInfo {
    FileInfo { path: Bytes::copy_from_slice(name), kind: FileKind::File.into(), ..FileInfo::default() }
}

#[tokio::test]
async fn a_refusal_carries_its_kind_and_a_safe_message() {
    let long = format!("no such file\n\u{1b}]0;title\u{7}{}", "x".repeat(100_000));
    let replies = vec![error(ErrorCode::NotFound, &long)];
    let error =
        answered(async |c| c.stat(&path("/x"), false, SOON).await, replies).await.expect_err("refused");
    assert_eq!(error.refusal(), Some(Refusal::NotFound));
    let AgentError::Refused { message, operation: "stat", .. } = &error else { panic!("{error:?}") };
    assert!(message.starts_with("no such file\\n\\u{1b}]0;title\\u{7}xxx"), "{message:.80}");
    assert!(message.len() <= MAX_MESSAGE_BYTES);
    assert!(!error.is_fatal());
}

#[tokio::test]
async fn an_unknown_reason_is_the_agents_own_failure() {
    for code in [0, 18, -1, i32::MAX] {
        let reply = Reply::Error(rekindle_protocol::wire::Error { code, message: String::new() });
        let error = answered(async |c| c.quiesce(true, SOON).await, vec![reply]).await.expect_err("refused");
        assert_eq!(error.refusal(), Some(Refusal::Internal), "{code}");
    }
}

#[tokio::test]
async fn a_reply_of_the_wrong_kind_breaks_the_protocol() {
    let wrong = || vec![Reply::Chunk(Chunk::default())];
    let broken = |error: AgentError| {
        assert!(matches!(&error, AgentError::Protocol { what, .. } if what.contains("chunk")), "{error:?}");
        assert!(error.is_fatal());
    };
    broken(answered(async |c| c.ping(SOON).await, wrong()).await.expect_err("chunk"));
    broken(
        answered(async |c| c.restore(RestoreRequest::default(), SOON).await, wrong())
            .await
            .expect_err("chunk"),
    );
    broken(answered(async |c| c.stat(&path("a"), true, SOON).await, wrong()).await.expect_err("chunk"));
    broken(answered(async |c| c.list(&path("a"), 0, SOON).await, wrong()).await.expect_err("chunk"));
    broken(answered(async |c| c.remove(&path("a"), true, SOON).await, wrong()).await.expect_err("chunk"));
    broken(
        answered(async |c| c.mkdir(&path("a"), MkdirOptions::default(), SOON).await, wrong())
            .await
            .expect_err("chunk"),
    );
    broken(
        answered(async |c| c.rename(&path("a"), &path("b"), false, SOON).await, wrong())
            .await
            .expect_err("chunk"),
    );
    broken(answered(async |c| c.poweroff(SOON).await, wrong()).await.expect_err("chunk"));
    broken(answered(async |c| c.signal(1, 9, false, SOON).await, wrong()).await.expect_err("chunk"));
    broken(
        answered(async |c| c.resize(1, Default::default(), SOON).await, wrong()).await.expect_err("chunk"),
    );
    let started = vec![Reply::Started(Started::default())];
    let error = answered(async |c| c.ping(SOON).await, started).await.expect_err("started");
    assert!(matches!(error, AgentError::Protocol { .. }));
}

#[tokio::test]
async fn honest_answers_come_through() {
    answered(async |c| c.restore(RestoreRequest::default(), SOON).await, vec![done()]).await.expect("done");
    let info = FileInfo { mode: 0o100_644, size: 5, ..file(b"whatever") };
    let info = answered(async |c| c.stat(&path("/a"), false, SOON).await, vec![Reply::File(info)]).await;
    let info = info.expect("a file");
    assert_eq!((info.path, info.kind, info.mode), (path("/a"), Kind::File, 0o644), "our name, and only bits");
}

#[tokio::test]
async fn a_renamed_file_has_the_name_that_was_asked_for() {
    let (client, mut agent) = connected().await;
    let answer = async {
        let (op, mut stream) = agent.next().await;
        let Op::Rename(request) = op else { panic!("{op:?}") };
        say(&mut stream, Reply::File(file(b"/etc/passwd"))).await;
        (request, stream)
    };
    let (from, to) = (path("a"), path("b/c"));
    let (renamed, (request, _stream)) = tokio::join!(client.rename(&from, &to, true, SOON), answer);
    assert_eq!((&request.from[..], &request.to[..], request.must_not_exist), (&b"a"[..], &b"b/c"[..], true));
    assert_eq!(renamed.expect("a file").path, to);
}

#[tokio::test]
async fn an_agent_that_would_not_heed_must_not_exist_is_not_asked() {
    let (host, guest) = tokio::io::duplex(64 * 1024);
    let agent = tokio::spawn(Fake::accept(guest, Reply::Hello(hello_of(3, 4))));
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    let _agent = agent.await.expect("an agent").expect("a session");
    let options = MkdirOptions { parents: true, must_not_exist: true, ..MkdirOptions::default() };
    let error = client.mkdir(&path("a"), options, SOON).await.expect_err("an old agent");
    assert_eq!(error.refusal(), Some(Refusal::UnknownRequest));
}

#[tokio::test]
async fn a_file_of_no_known_kind_breaks_the_protocol() {
    let long_link = FileInfo { link_target: vec![b'a'; 5000].into(), ..file(b"a") };
    let pair = |name: &str, value: &str| FileMetadata { name: name.into(), value: value.into() };
    let noted = |metadata| FileInfo { metadata, ..file(b"a") };
    for info in [
        FileInfo { kind: 0, ..file(b"a") },
        FileInfo { kind: 99, ..file(b"a") },
        long_link,
        FileInfo { link_kind: 99, ..file(b"a") },
        FileInfo { link_kind: FileKind::Symlink.into(), ..file(b"a") },
        FileInfo { owner: "o".repeat(65), ..file(b"a") },
        FileInfo { group: "\u{1b}[2J".into(), ..file(b"a") },
        noted(vec![pair("", "x")]),
        noted(vec![pair("a", "\u{7}")]),
        noted(vec![pair("a", "1"), pair("a", "2")]),
        noted((0..33).map(|n| pair(&n.to_string(), "")).collect()),
        noted(vec![pair("a", &"x".repeat(4000))]),
    ] {
        let reply = vec![Reply::File(info)];
        let error = answered(async |c| c.stat(&path("/a"), false, SOON).await, reply).await.expect_err("odd");
        assert!(matches!(error, AgentError::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_listing_in_parts_is_put_together() {
    let part =
        |name: &[u8], last| Reply::Listing(Listing { entries: vec![file(name)], last, truncated: last });
    let replies = vec![part(b"a", false), part(b"\xff\n", false), part(b"c", true)];
    let listing = answered(async |c| c.list(&path("/"), 3, SOON).await, replies).await.expect("a listing");
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.path.as_bytes()).collect();
    assert_eq!(names, [&b"a"[..], b"\xff\n", b"c"]);
    assert!(listing.truncated);
}

#[tokio::test]
async fn a_listing_of_links_to_long_paths_is_refused_before_it_fills_the_memory() {
    let entry = FileInfo { link_target: vec![b'p'; 4_000].into(), ..file(b"link") };
    let part =
        || Reply::Listing(Listing { entries: vec![entry.clone(); 200], last: false, truncated: false });
    let replies: Vec<_> = std::iter::repeat_with(part).take(10).collect();
    let error = answered(async |c| c.list(&path("/"), 0, SOON).await, replies).await.expect_err("8 MB");
    assert!(matches!(error, AgentError::TooLarge { .. }), "{error}");
    let names = vec![file(&[b'n'; 255]); 2_000];
    let part = |last| Reply::Listing(Listing { entries: names.clone(), last, truncated: false });
    let replies = vec![part(false), part(false), part(false), part(false), part(true)];
    let whole = answered(async |c| c.list(&path("/"), 0, SOON).await, replies).await.expect("long names");
    assert_eq!(whole.entries.len(), 10_000);
}

#[tokio::test]
async fn a_listing_that_lies_breaks_the_protocol() {
    let listing = |names: &[&[u8]], last| {
        let entries = names.iter().map(|name| file(name)).collect();
        Reply::Listing(Listing { entries, last, truncated: false })
    };
    let lies = [
        vec![listing(&[b"a", b"b", b"c"], true)],
        vec![listing(&[b"a"], false), listing(&[b"b"], false), listing(&[b"c"], false)],
        vec![listing(&[], false)],
        vec![listing(&[b".."], true)],
        vec![listing(&[b"../etc"], true)],
        vec![listing(&[b""], true)],
        vec![listing(&[&[b'x'; 5000]], true)],
    ];
    for replies in lies {
        let error = answered(async |c| c.list(&path("/"), 2, SOON).await, replies).await.expect_err("a lie");
        assert!(matches!(error, AgentError::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_listing_of_levels_has_paths_that_lead_down_and_no_further_than_asked() {
    let listing = |names: &[&str]| {
        let entries = names.iter().map(|name| file(name.as_bytes())).collect();
        vec![Reply::Listing(Listing { entries, last: true, truncated: false })]
    };
    let below = async |c: AgentClient| c.list_tree(&path("/"), 2, 0, SOON).await;
    let honest = answered(below, listing(&["a", "a/b", "c"])).await.expect("a listing");
    let paths: Vec<_> = honest.entries.iter().map(|entry| entry.path.as_bytes()).collect();
    assert_eq!(paths, [&b"a"[..], b"a/b", b"c"]);
    for lie in ["a/b/c", "/etc", "a//b", "a/", "a/..", "../a", "..", "./a", ""] {
        let error = answered(below, listing(&[lie])).await.expect_err("a lie");
        assert!(matches!(error, AgentError::Protocol { .. }), "{lie:?}: {error:?}");
    }
}

#[tokio::test]
async fn an_agent_that_would_ignore_users_depths_metadata_and_places_is_not_asked() {
    let (host, guest) = tokio::io::duplex(64 * 1024);
    let agent = tokio::spawn(Fake::accept(guest, Reply::Hello(hello_of(3, 6))));
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    let _agent = agent.await.expect("an agent").expect("a session");
    let patience = TransferPatience::default();
    let upload = async |options| client.upload_bytes(&path("a"), options, b"x", patience).await.map(drop);
    let metadata = crate::agent::FileMetadata::new([("a".to_owned(), "b".to_owned())]).expect("metadata");
    let root = client.as_user(GuestUser::Root);
    for refused in [
        client.list_tree(&path("/"), 2, 0, SOON).await.map(drop),
        upload(UploadOptions { in_place: true, ..UploadOptions::default() }).await,
        upload(UploadOptions { metadata, ..UploadOptions::default() }).await,
        root.stat(&path("a"), false, SOON).await.map(drop),
        root.remove(&path("a"), false, SOON).await,
    ] {
        assert_eq!(refused.expect_err("an old agent").refusal(), Some(Refusal::UnknownRequest));
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_deadline_and_the_session_goes_on() {
    let (client, mut agent) = connected().await;
    let ping = tokio::spawn({
        let client = client.clone();
        async move { client.ping(SOON).await }
    });
    let (op, _silent) = agent.next().await;
    assert_eq!(op, Op::Ping(PingRequest {}));
    let error = ping.await.expect("no panic").expect_err("silence");
    assert!(matches!(error, AgentError::Silent { operation: "ping", waited } if waited >= SOON), "{error:?}");

    let ping = tokio::spawn(async move { client.ping(SOON).await });
    let (_, mut stream) = agent.next().await;
    say(&mut stream, Reply::Pong(Pong::default())).await;
    ping.await.expect("no panic").expect("a pong");
}

#[tokio::test(start_paused = true)]
async fn half_a_frame_and_then_silence_ends_at_the_deadline() {
    let (client, mut agent) = connected().await;
    let ping = tokio::spawn(async move { client.ping(SOON).await });
    let (_, mut stream) = agent.next().await;
    stream.write_all(&[0, 0, 1, 0, 8, 1]).await.expect("half a frame");
    stream.flush().await.expect("flushed");
    let error = ping.await.expect("no panic").expect_err("half a frame");
    assert!(matches!(error, AgentError::Silent { .. }), "{error:?}");
}

#[tokio::test]
async fn bytes_that_are_no_reply_break_the_protocol() {
    let garbage: [&[u8]; 4] =
        [&[0xff; 64], &[0, 0, 0, 3, 0xff, 0xff, 0xff], &[0, 0, 0, 0], &[0, 0x10, 0, 1, 1, 2, 3]];
    for bytes in garbage {
        let (client, mut agent) = connected().await;
        let ping = tokio::spawn(async move { client.ping(SOON).await });
        let (_, mut stream) = agent.next().await;
        stream.write_all(bytes).await.expect("garbage goes out");
        stream.flush().await.expect("flushed");
        let error = ping.await.expect("no panic").expect_err("garbage");
        assert!(matches!(error, AgentError::Protocol { .. }), "{bytes:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_stream_dropped_without_an_answer_is_told_from_a_lost_session() {
    let (client, mut agent) = connected().await;
    let pinging = client.clone();
    let ping = tokio::spawn(async move { pinging.ping(SOON).await });
    drop(agent.next().await);
    let error = ping.await.expect("no panic").expect_err("reset");
    assert!(matches!(error, AgentError::Abandoned { .. }), "{error:?}");

    let pinging = client.clone();
    let ping = tokio::spawn(async move { pinging.ping(SOON).await });
    let (_, mut stream) = agent.next().await;
    stream.write_all(&[0, 0, 0, 9, 1]).await.expect("half a frame");
    stream.shutdown().await.expect("and the end");
    let error = ping.await.expect("no panic").expect_err("cut");
    assert!(matches!(error, AgentError::Protocol { .. }), "{error:?}");

    let ping = tokio::spawn(async move { client.ping(SOON).await });
    let stream = agent.next().await;
    drop(agent);
    drop(stream);
    let error = ping.await.expect("no panic").expect_err("lost");
    assert!(matches!(error, AgentError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_not_sent() {
    let (client, _agent) = connected().await;
    let env = vec![super::super::EnvVar { name: "A".into(), value: vec![b'x'; MAX_FRAME_BYTES].into() }];
    let error =
        client.restore(RestoreRequest { env, ..Default::default() }, SOON).await.expect_err("too large");
    assert!(matches!(error, AgentError::Invalid { operation: "restore", .. }), "{error:?}");
}

#[tokio::test]
async fn many_calls_at_once_wait_for_their_turn_instead_of_ending_the_session() {
    let (client, mut agent) = connected().await;
    let calls: Vec<_> = (0..2_000)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.ping(SOON).await })
        })
        .collect();
    tokio::spawn(async move {
        loop {
            let (_, mut stream) = agent.next().await;
            say(&mut stream, Reply::Pong(Pong::default())).await;
        }
    });
    for call in calls {
        call.await.expect("no panic").expect("a pong");
    }
}
