//! Uploads to agents that change bytes, refuse late, stop reading and vanish.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::{self, ErrorCode, FileKind};
use sha2::{Digest as _, Sha256};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::super::Refusal;
use super::super::fake::{SOON, connected, done, error, say};
use super::*;

const PATIENCE: TransferPatience =
    TransferPatience { stall: Duration::from_secs(60), total: Duration::from_secs(600) };

fn path() -> GuestPath {
    "/home/user/file".parse().expect("a path")
}

/// Takes everything up to the end, as an honest agent would.
async fn take(stream: &mut Stream) -> (Vec<u8>, TransferEnd) {
    let mut content = Vec::new();
    loop {
        match next(stream).await.expect("a part") {
            Part::Chunk(chunk) => content.extend_from_slice(&chunk.data),
            Part::End(end) => return (content, end),
        }
    }
}

/// The next part; `None` when the stream was cut.
async fn next(stream: &mut Stream) -> Option<Part> {
    let part: UploadPart = frame::read(stream).await.ok()??;
    part.part
}

fn info(size: u64, checksum: u64) -> Reply {
    Reply::File(wire::FileInfo {
        kind: FileKind::File.into(),
        size,
        checksum,
        mode: 0o644,
        ..wire::FileInfo::default()
    })
}

#[tokio::test]
async fn content_of_any_size_arrives_with_its_checksum() {
    for size in [0usize, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3_000_000] {
        let content: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
        let (client, mut agent) = connected().await;
        let answering = tokio::spawn(async move {
            let (op, mut stream) = agent.next().await;
            let Op::Upload(request) = op else { panic!("{op:?}") };
            assert_eq!((request.mode, request.must_not_exist), (0o755, true));
            let (content, end) = take(&mut stream).await;
            say(&mut stream, info(content.len() as u64, end.checksum)).await;
            (content, end)
        });
        let options = UploadOptions { mode: 0o755, must_not_exist: true, ..UploadOptions::default() };
        let uploaded = client.upload_bytes(&path(), options, &content, PATIENCE).await.expect("uploaded");
        assert_eq!(uploaded.size, size as u64);
        let (received, end) = answering.await.expect("no panic");
        assert_eq!(received, content, "{size}");
        assert_eq!(end.checksum, Checksum::of(&content));
        assert_eq!(uploaded.sha256.expect("a digest").0[..], Sha256::digest(&content)[..]);
        assert_eq!(end.size, size as u64);
    }
}

#[tokio::test]
async fn an_answer_about_other_bytes_is_noticed() {
    let (sum, other) = (Checksum::of(b"content"), Checksum::of(b"other"));
    let lies = [info(7, other), info(8, sum), info(7, 0), info(0, sum)];
    for lie in lies {
        let (client, mut agent) = connected().await;
        tokio::spawn(async move {
            let (_, mut stream) = agent.next().await;
            take(&mut stream).await;
            say(&mut stream, lie).await;
            agent.over().await;
        });
        let outcome = client.upload_bytes(&path(), UploadOptions::default(), b"content", PATIENCE).await;
        assert!(matches!(outcome, Err(AgentError::Corrupted { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_refusal_half_way_ends_the_upload_at_once() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        next(&mut stream).await.expect("a part");
        say(&mut stream, error(ErrorCode::NoSpace, "the disk is full")).await;
        // Nothing more is read: only the refusal can end this.
        agent.over().await;
        drop(stream);
    });
    let outcome = client.upload(&path(), UploadOptions::default(), tokio::io::repeat(7), PATIENCE).await;
    assert_eq!(outcome.expect_err("refused").refusal(), Some(Refusal::NoSpace));
}

#[tokio::test]
async fn a_refusal_followed_by_a_reset_is_still_a_refusal() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, error(ErrorCode::AlreadyExists, "it exists")).await;
        drop(stream);
        agent.over().await;
    });
    let outcome = client.upload(&path(), UploadOptions::default(), tokio::io::repeat(7), PATIENCE).await;
    assert_eq!(outcome.expect_err("refused").refusal(), Some(Refusal::AlreadyExists));
}

#[tokio::test]
async fn an_acknowledgement_before_the_end_breaks_the_protocol() {
    for early in [info(0, Checksum::of(b"")), done()] {
        let (client, mut agent) = connected().await;
        tokio::spawn(async move {
            let (_, mut stream) = agent.next().await;
            say(&mut stream, early).await;
            agent.over().await;
            drop(stream);
        });
        let outcome = client.upload(&path(), UploadOptions::default(), tokio::io::repeat(7), PATIENCE).await;
        assert!(matches!(outcome, Err(AgentError::Protocol { .. })), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_reading_is_given_up_after_the_stall() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let _held = agent.next().await;
        agent.over().await;
    });
    let began = Instant::now();
    let outcome = client.upload(&path(), UploadOptions::default(), tokio::io::repeat(7), PATIENCE).await;
    assert!(matches!(outcome, Err(AgentError::Silent { .. })), "{outcome:?}");
    assert!(began.elapsed() < 3 * PATIENCE.stall);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_acknowledges_is_given_up_after_the_stall() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        take(&mut stream).await;
        agent.over().await;
    });
    let outcome = client.upload_bytes(&path(), UploadOptions::default(), b"content", PATIENCE).await;
    assert!(matches!(outcome, Err(AgentError::Silent { .. })), "{outcome:?}");
}

/// A source that yields some bytes and then fails.
struct Failing(bool);

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.0 = true;
        out.put_slice(b"some");
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_source_that_fails_cuts_the_stream_before_its_end() {
    let (client, mut agent) = connected().await;
    let answering = tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        let Some(Part::Chunk(chunk)) = next(&mut stream).await else { panic!("a chunk") };
        assert_eq!(&chunk.data[..], b"some");
        next(&mut stream).await
    });
    let outcome = client.upload(&path(), UploadOptions::default(), Failing(false), PATIENCE).await;
    assert!(matches!(outcome, Err(AgentError::Source(_))), "{outcome:?}");
    let end = tokio::time::timeout(SOON, answering).await.expect("the stream ends").expect("no panic");
    assert_eq!(end, None, "an end was announced");
}
