//! Downloads from agents that lie about what they send, send too much, or stop.

use std::time::Duration;

use bytes::Bytes;
use rekindle_protocol::wire::{self, Chunk, ErrorCode, FileKind, TransferEnd};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::super::Refusal;
use super::super::fake::{connected, done, error, say};
use super::*;

const PATIENCE: TransferPatience =
    TransferPatience { stall: Duration::from_secs(60), total: Duration::from_secs(600) };

fn info() -> Reply {
    Reply::File(wire::FileInfo { kind: FileKind::File.into(), ..wire::FileInfo::default() })
}

fn chunk(data: impl Into<Bytes>) -> Reply {
    Reply::Chunk(Chunk { data: data.into() })
}

fn end(content: &[u8]) -> Reply {
    Reply::End(TransferEnd { checksum: Checksum::of(content), size: content.len() as u64 })
}

async fn download(max_bytes: u64, replies: Vec<Reply>) -> (Result<Downloaded, AgentError>, Vec<u8>) {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        for reply in replies {
            say(&mut stream, reply).await;
        }
        agent.over().await;
        drop(stream);
    });
    let mut content = Vec::new();
    let path = "/home/user/file".parse().expect("a path");
    let outcome = client.download(&path, max_bytes, &mut content, PATIENCE).await;
    (outcome, content)
}

#[tokio::test]
async fn content_arrives_with_its_checksum() {
    let content: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7 % 253) as u8).collect();
    let mut replies = vec![info()];
    replies.extend(content.chunks(MAX_CHUNK_BYTES).map(|piece| chunk(piece.to_vec())));
    replies.push(end(&content));
    let (outcome, received) = download(1_000_000, replies).await;
    let downloaded = outcome.expect("downloaded");
    assert_eq!(received, content);
    assert_eq!(downloaded.size, 1_000_000);
    assert_eq!(downloaded.sha256.0[..], Sha256::digest(&content)[..]);

    let (outcome, received) = download(0, vec![info(), end(b"")]).await;
    assert_eq!(outcome.expect("an empty file").size, 0);
    assert!(received.is_empty());
}

#[tokio::test]
async fn bytes_that_do_not_match_their_checksum_are_noticed() {
    let other = Reply::End(TransferEnd { checksum: 7, size: 3 });
    for end in [end(b"abd"), end(b"ab"), end(b"abcd"), other] {
        let (outcome, _) = download(100, vec![info(), chunk("abc"), end]).await;
        assert!(matches!(outcome, Err(AgentError::Corrupted { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn more_than_was_allowed_is_not_taken() {
    let (outcome, received) = download(5, vec![info(), chunk("abc"), chunk("def"), end(b"abcdef")]).await;
    assert!(matches!(outcome, Err(AgentError::TooLarge { limit: 5, .. })), "{outcome:?}");
    assert!(received.len() <= 5);
    let (outcome, _) = download(0, vec![info(), chunk("a"), end(b"a")]).await;
    assert!(matches!(outcome, Err(AgentError::TooLarge { .. })), "{outcome:?}");
}

#[tokio::test]
async fn replies_out_of_place_break_the_protocol() {
    let odd = [
        vec![chunk("abc")],
        vec![end(b"")],
        vec![done()],
        vec![info(), info()],
        vec![info(), chunk("")],
        vec![info(), chunk(vec![0; MAX_CHUNK_BYTES + 1])],
        vec![info(), chunk("a"), done()],
        vec![Reply::File(wire::FileInfo::default())],
    ];
    for replies in odd {
        let (outcome, _) = download(u64::MAX, replies).await;
        assert!(matches!(outcome, Err(AgentError::Protocol { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_error_half_way_is_an_error() {
    let refusal = error(ErrorCode::TooLarge, "it grew");
    let (outcome, _) = download(100, vec![info(), chunk("abc"), refusal]).await;
    assert_eq!(outcome.expect_err("refused").refusal(), Some(Refusal::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_half_way_is_given_up_after_the_stall() {
    let began = Instant::now();
    let (outcome, _) = download(100, vec![info(), chunk("abc")]).await;
    assert!(matches!(outcome, Err(AgentError::Silent { .. })), "{outcome:?}");
    assert!(began.elapsed() < 2 * PATIENCE.stall);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_drips_is_given_up_when_the_whole_takes_too_long() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, info()).await;
        loop {
            tokio::time::sleep(PATIENCE.stall / 2).await;
            say(&mut stream, chunk("x")).await;
        }
    });
    let began = Instant::now();
    let path = "/proc/drip".parse().expect("a path");
    let outcome = client.download(&path, u64::MAX, tokio::io::sink(), PATIENCE).await;
    assert!(matches!(outcome, Err(AgentError::Silent { .. })), "{outcome:?}");
    assert!(began.elapsed() <= PATIENCE.total + PATIENCE.stall);
}

#[tokio::test]
async fn a_sink_that_fails_is_the_callers_error() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        for reply in [info(), chunk("abc"), end(b"abc")] {
            say(&mut stream, reply).await;
        }
        agent.over().await;
        drop(stream);
    });
    let (sink, closed) = tokio::io::duplex(1);
    drop(closed);
    let path = "a".parse().expect("a path");
    let outcome = client.download(&path, 100, sink, PATIENCE).await;
    assert!(matches!(outcome, Err(AgentError::Sink(_))), "{outcome:?}");
}
