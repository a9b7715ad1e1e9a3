//! Connections of the host to ports inside the guest. The agent shares its loopback with the test, which serves them.

use std::io::ErrorKind;

use rekindle::agent::{PortStream, Refusal};
use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_PORT_CONNECTIONS;
use rekindle_protocol::mux::{Opener, Stream};
use rekindle_protocol::wire::{ConnectRequest, ErrorCode, Request, Response, request::Op, response::Reply};
use rekindle_test_support::skip;
use rekindle_test_support::wait::until_answer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::agent;
use crate::bad_input::greeted;
use crate::harness::{Agent, SOON, Setup, Transport};

async fn listener(address: &str) -> std::io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((address, 0)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// A connection, from the host's side and from the program's.
async fn connected(agent: &Agent, listener: &TcpListener, port: u16) -> (PortStream, TcpStream) {
    let (host, accepted) = tokio::join!(agent.client.connect_port(port, SOON), listener.accept());
    (host.expect("connected"), accepted.expect("accepted").0)
}

#[tokio::test]
async fn bytes_go_both_ways_and_an_end_is_the_end_of_a_half() {
    let agent = agent!();
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    let (mut host, mut program) = connected(&agent, &listener, port).await;
    // More than any window.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let feeding = async {
        host.write_all(&sent).await.expect("sent");
        host.shutdown().await.expect("ended");
    };
    let mut got = Vec::new();
    let (_, read) = tokio::join!(feeding, program.read_to_end(&mut got));
    read.expect("an end");
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    let feeding = async {
        program.write_all(&sent).await.expect("the other half goes on");
        drop(program);
    };
    got.clear();
    let (_, read) = tokio::join!(feeding, host.read_to_end(&mut got));
    read.expect("an end, not a reset");
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
}

#[tokio::test]
async fn a_program_that_serves_the_other_loopback_is_found() {
    let agent = agent!();
    let Ok((listener, port)) = listener("::1").await else { skip!("this machine has no ::1") };
    let (mut host, mut program) = connected(&agent, &listener, port).await;
    program.write_all(b"six").await.expect("sent");
    let mut got = [0; 3];
    host.read_exact(&mut got).await.expect("bytes");
    assert_eq!(&got, b"six");
}

#[tokio::test]
async fn a_reset_is_a_reset_on_either_side() {
    let agent = agent!();
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    let (host, mut program) = connected(&agent, &listener, port).await;
    drop(host);
    let read = tokio::time::timeout(SOON, program.read(&mut [0; 8])).await.expect("no hang");
    assert_eq!(read.expect_err("a reset").kind(), ErrorKind::ConnectionReset);

    let (mut host, program) = connected(&agent, &listener, port).await;
    // A socket that is closed with unread bytes is reset.
    host.write_all(b"unread").await.expect("sent");
    assert!(program.peek(&mut [0; 8]).await.expect("bytes") > 0);
    drop(program);
    let read = tokio::time::timeout(SOON, host.read(&mut [0; 8])).await.expect("no hang");
    assert_eq!(read.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    agent.answers().await;
}

#[tokio::test]
async fn what_a_program_says_before_it_hangs_up_arrives_though_it_does_not_listen() {
    let agent = agent!();
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    let (mut host, mut program) = connected(&agent, &listener, port).await;
    let answer = vec![7; 100_000];
    host.write_all(b"a body that is too large").await.expect("sent");
    let talking = async {
        // It is told that nobody reads this at some time, or never.
        while host.write_all(&[0; 64 * 1024]).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let refusing = async {
        program.write_all(&answer).await.expect("sent");
        program.shutdown().await.expect("ended");
        drop(program);
    };
    refusing.await;
    let _ = tokio::time::timeout(std::time::Duration::from_millis(300), talking).await;
    let mut got = Vec::new();
    let _ = tokio::time::timeout(SOON, host.read_to_end(&mut got)).await.expect("no hang");
    assert_eq!(got.len(), answer.len());
}

#[tokio::test]
async fn what_cannot_be_connected_to_is_refused() {
    let agent = agent!();
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    drop(listener);
    let refused = agent.client.connect_port(port, SOON).await.expect_err("nobody listens");
    assert_eq!(refused.refusal(), Some(Refusal::NotFound), "{refused}");
    assert!(refused.to_string().contains(&format!("nothing listens at port {port}")), "{refused}");
    let refused = agent.client.connect_port(0, SOON).await.expect_err("no port");
    assert_eq!(refused.refusal(), Some(Refusal::InvalidArgument), "{refused}");
}

#[tokio::test]
async fn a_closed_gate_lets_nobody_in_and_a_connection_keeps_a_guest_from_being_frozen() {
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    let agent = agent!(Setup { gate: false, ..Setup::default() });
    let refused = agent.client.connect_port(port, SOON).await.expect_err("no sandbox yet");
    assert_eq!(refused.refusal(), Some(Refusal::GateClosed), "{refused}");

    let agent = agent!();
    let (host, _program) = connected(&agent, &listener, port).await;
    let busy = agent.client.quiesce(false, SOON).await.expect_err("somebody is connected");
    assert_eq!(busy.refusal(), Some(Refusal::Busy), "{busy}");
    drop(host);
}

/// Asks without the bound that the supervisor's client has.
async fn ask(opener: &Opener, port: u16) -> (Stream, Reply) {
    let mut stream = opener.open().await.expect("a stream");
    let op = Some(Op::Connect(ConnectRequest { port: port.into() }));
    frame::write(&mut stream, &Request { op }).await.expect("sent");
    let answer = tokio::time::timeout(SOON, frame::read::<Response>(&mut stream)).await.expect("no hang");
    let reply = answer.expect("a frame").expect("an answer").reply.expect("a reply");
    (stream, reply)
}

#[tokio::test]
async fn a_guest_has_so_many_connections_and_no_more() {
    let agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    let (listener, port) = listener("127.0.0.1").await.expect("a port");
    let accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    let opener = greeted(agent.dial().await).await;
    let mut open = Vec::new();
    for _ in 0..MAX_PORT_CONNECTIONS {
        let (stream, reply) = ask(&opener, port).await;
        assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
        open.push(stream);
    }
    let (_, reply) = ask(&opener, port).await;
    let Reply::Error(error) = reply else { panic!("{reply:?}") };
    assert_eq!(error.code(), ErrorCode::Busy);
    // Its program is silent and has not hung up: the host's leaving alone gives the place back.
    open.pop();
    until_answer("a place", async || {
        let (stream, reply) = ask(&opener, port).await;
        matches!(reply, Reply::Done(_)).then_some(stream)
    })
    .await;
    accepting.abort();
}
