//! A session starts only with an agent that speaks our language, and ends with its last handle.

use rekindle_protocol::preamble::{self, PreambleError};
use rekindle_protocol::wire::{ErrorCode, HelloResponse, Pong, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::fake::{Fake, SOON, connected, done, error, hello, hello_of, say};
use super::super::{AgentError, KillScope};
use super::*;

/// Connects to an agent that answers hello with this.
async fn introduced(answer: Reply) -> Result<AgentClient, ConnectError> {
    let (host, guest) = tokio::io::duplex(64 * 1024);
    let agent = tokio::spawn(async move {
        if let Some(agent) = Fake::accept(guest, answer).await {
            agent.over().await;
        }
    });
    let client = AgentClient::connect(host, SOON).await;
    if client.is_err() {
        agent.await.expect("a failed connect ends the session");
    }
    client
}

#[tokio::test]
async fn an_agent_of_the_same_major_version_is_welcome() {
    let client =
        introduced(Reply::Hello(hello_of(VERSION.major, VERSION.minor + 7))).await.expect("a session");
    assert_eq!(client.hello().version.minor, VERSION.minor + 7);
    assert_eq!(client.hello().capabilities.kill_scope, KillScope::Cgroup);
    assert!(client.hello().gate_open);
}

#[tokio::test]
async fn another_major_version_is_an_error_that_names_both() {
    let error = introduced(Reply::Hello(hello_of(7, 3))).await.expect_err("a mismatch");
    assert!(matches!(&error, ConnectError::Version { agent, .. } if agent.major == 7), "{error:?}");
    assert_eq!(error.to_string(), "the agent speaks protocol 7.3, this supervisor 3.11");
}

#[tokio::test]
async fn an_agent_that_refuses_our_version_is_quoted() {
    let answer = error(ErrorCode::VersionMismatch, "I speak 4.0\u{1b}[31m");
    let error = introduced(answer).await.expect_err("a mismatch");
    assert!(matches!(&error, ConnectError::VersionRefused { .. }), "{error:?}");
    assert_eq!(error.to_string(), "the agent refused protocol 3.11: I speak 4.0\\u{1b}[31m");
}

#[tokio::test]
async fn an_introduction_that_lacks_something_is_refused() {
    let incomplete = [
        Reply::Hello(HelloResponse { version: None, ..hello() }),
        Reply::Hello(HelloResponse { capabilities: None, ..hello() }),
        Reply::Hello(HelloResponse { capabilities: Some(Default::default()), ..hello() }),
        Reply::Pong(Pong::default()),
        done(),
    ];
    for answer in incomplete {
        let error = introduced(answer).await.expect_err("it is incomplete");
        assert!(matches!(error, ConnectError::Hello(AgentError::Protocol { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_boastful_program_name_is_cut_and_made_printable() {
    let program = "\u{7}".repeat(10_000);
    let client = introduced(Reply::Hello(HelloResponse { program, ..hello() })).await.expect("a session");
    assert!(client.hello().program.len() <= 256);
    assert!(client.hello().program.starts_with("\\u{7}"));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_says_nothing_is_given_up_at_the_deadline() {
    let (host, _guest) = tokio::io::duplex(64);
    let error = AgentClient::connect(host, SOON).await.expect_err("silence");
    assert!(matches!(error, ConnectError::Preamble(PreambleError::NoAnswer { .. })), "{error:?}");
}

#[tokio::test]
async fn garbage_behind_the_hello_loses_the_session_and_says_why() {
    let (host, guest) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let introduce = |_: &_| Reply::Hello(hello());
        let mut io = preamble::respond(guest, introduce).await.expect("a preamble").expect("no end");
        io.write_all(&[0xff; 4096]).await.expect("garbage goes out");
        let mut sink = Vec::new();
        let _ = io.read_to_end(&mut sink).await;
    });
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    let error = client.ping(SOON).await.expect_err("garbage");
    let AgentError::Lost { cause: Some(cause), .. } = error else { panic!("{error:?}") };
    assert_eq!(cause.kind(), std::io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_session() {
    let (client, agent) = connected().await;
    let other = client.clone();
    drop(client);
    let over = tokio::spawn(agent.over());
    tokio::task::yield_now().await;
    assert!(!over.is_finished(), "a clone still holds it");
    drop(other);
    over.await.expect("the session ended");
}

#[tokio::test]
async fn the_end_of_a_session_is_known_to_every_handle() {
    let (client, agent) = connected().await;
    drop(agent);
    tokio::time::timeout(SOON, client.closed()).await.expect("the end is noticed");
    let error = client.ping(SOON).await.expect_err("no session");
    assert!(matches!(error, AgentError::Lost { operation: "ping", .. }), "{error:?}");
    assert!(error.is_fatal());
}

#[tokio::test]
async fn a_stream_the_guest_opens_is_refused_and_harms_nothing() {
    let (client, mut agent) = connected().await;
    for _ in 0..2_000 {
        let mut stream = agent.opener.open().await.expect("a stream");
        let _ = rekindle_protocol::frame::write(&mut stream, &Request::default()).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "the stream is reset: {read:?}");
    }
    let ping = tokio::spawn(async move { client.ping(SOON).await });
    let (_, mut stream) = agent.next().await;
    say(&mut stream, Reply::Pong(Pong { unix_nanos: 1, boot_nanos: 2 })).await;
    assert_eq!(ping.await.expect("no panic").expect("a pong").boot_nanos, 2);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_read_cannot_keep_a_closed_session_alive() {
    // A pipe so small that even the farewell does not fit while nobody reads.
    let (host, guest) = tokio::io::duplex(8);
    let agent = tokio::spawn(async move {
        let introduce = |_: &_| Reply::Hello(hello());
        let mut io = preamble::respond(guest, introduce).await.expect("a preamble").expect("no end");
        tokio::time::sleep(SOON).await;
        io.write_all(b"anyone there?").await
    });
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    let ping = client.ping(std::time::Duration::from_secs(2)).await;
    assert!(matches!(ping, Err(AgentError::Silent { .. })), "{ping:?}");
    drop(client);
    let written = tokio::time::timeout(2 * SOON, agent).await.expect("no hang").expect("no panic");
    assert!(written.is_err(), "the byte stream was dropped");
}
