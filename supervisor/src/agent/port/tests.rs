//! Bytes both ways, ends and resets told apart, and how many at once.

use std::io::ErrorKind;

use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_PORT_CONNECTIONS;
use rekindle_protocol::mux::{RawStream, Stream};
use rekindle_protocol::wire::{ErrorCode, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::agent::fake::{Fake, SOON, connected, done, error, say};
use crate::agent::{AgentError, Refusal};

/// The stream of the next connection, which the agent has accepted.
async fn accepted(agent: &mut Fake) -> Stream {
    let (op, mut stream) = agent.next().await;
    let Op::Connect(request) = op else { panic!("{op:?}") };
    assert_eq!(request.port, 8000);
    say(&mut stream, done()).await;
    stream
}

#[tokio::test]
async fn bytes_go_both_ways_and_halves_end_by_themselves() {
    let (client, mut agent) = connected().await;
    let (connection, mut stream) = tokio::join!(client.connect_port(8000, SOON), async {
        let (_, mut stream) = agent.next().await;
        // The program speaks first: its bytes come with the answer.
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &Response { reply: Some(done()) }).await.expect("a frame");
        bytes.extend_from_slice(b"hello");
        stream.write_all(&bytes).await.expect("sent");
        stream.flush().await.expect("sent");
        RawStream::new(stream)
    });
    let mut connection = connection.expect("connected");
    let mut heard = [0; 5];
    connection.read_exact(&mut heard).await.expect("bytes");
    assert_eq!(&heard, b"hello");
    connection.write_all(b"all of it").await.expect("sent");
    connection.shutdown().await.expect("ended");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.expect("an end, not a reset");
    assert_eq!(all, b"all of it");
    stream.write_all(b"an answer").await.expect("the other half goes on");
    stream.shutdown().await.expect("ended");
    all.clear();
    connection.read_to_end(&mut all).await.expect("an end");
    assert_eq!(all, b"an answer");
}

#[tokio::test]
async fn a_reset_is_no_end() {
    let (client, mut agent) = connected().await;
    let (connection, stream) = tokio::join!(client.connect_port(8000, SOON), accepted(&mut agent));
    let mut connection = connection.expect("connected");
    drop(stream);
    let read = connection.read(&mut [0; 8]).await.expect_err("a reset");
    assert_eq!(read.kind(), ErrorKind::ConnectionReset);

    let (connection, stream) = tokio::join!(client.connect_port(8000, SOON), accepted(&mut agent));
    drop(connection.expect("connected"));
    let read = RawStream::new(stream).read(&mut [0; 8]).await.expect_err("a reset");
    assert_eq!(read.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_port_that_nobody_serves_is_not_found() {
    let (client, mut agent) = connected().await;
    let (refused, ()) = tokio::join!(client.connect_port(8000, SOON), async {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, error(ErrorCode::NotFound, "nothing listens")).await;
    });
    assert_eq!(refused.expect_err("refused").refusal(), Some(Refusal::NotFound));
}

#[tokio::test]
async fn one_too_many_waits_for_its_turn() {
    let (client, mut agent) = connected().await;
    let mut open = Vec::new();
    for _ in 0..MAX_PORT_CONNECTIONS {
        let (connection, stream) = tokio::join!(client.connect_port(8000, SOON), accepted(&mut agent));
        open.push((connection.expect("connected"), stream));
    }
    let busy = client.connect_port(8000, Duration::from_millis(20)).await.expect_err("no place");
    assert!(matches!(busy, AgentError::Busy), "{busy:?}");
    open.pop();
    let (connection, _stream) = tokio::join!(client.connect_port(8000, SOON), accepted(&mut agent));
    connection.expect("there is a place again");
}
