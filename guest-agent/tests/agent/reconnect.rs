//! Hosts come and go: sockets that are dropped, and a terminal standing in for a serial port, which has no
//! connections at all. Nothing of an old session reaches a new one.

use std::time::Duration;

use rekindle::agent::{AgentClient, AgentError, Event, ExecuteRequest, Outcome};
use rekindle_protocol::wire::{self, request::Op};
use rekindle_protocol::{frame, mux, preamble};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::agent;
use crate::harness::{Agent, LineEnd, PATIENCE, SOON, Setup, Transport, marker, path, shell};

fn listening() -> Setup {
    Setup { transport: Transport::Listen, ..Setup::default() }
}

async fn connect(agent: &Agent) -> AgentClient {
    AgentClient::connect(agent.dial().await, SOON).await.expect("a session")
}

#[tokio::test]
async fn an_agent_outlives_any_number_of_connections() {
    let agent = agent!(listening());
    for round in 0..50 {
        let client = connect(&agent).await;
        assert!(client.hello().gate_open, "the gate belongs to the guest, not to the connection");
        let finished = client.run(shell(&format!("echo {round}"))).await.expect("finished");
        assert_eq!(finished.stdout.text, format!("{round}\n"));
        if round % 2 == 0 {
            drop(client);
        } else {
            // Not even a farewell: the stream just ends, in the middle of something.
            let mut stream = agent.dial().await;
            stream.write_all(&preamble::MAGIC[..round % 16]).await.expect("sent");
        }
    }
}

#[tokio::test]
async fn a_lost_connection_cancels_what_it_started() {
    let agent = agent!(listening());
    let marker = marker();
    let line = format!("sleep {marker} & echo ready; sleep {marker}");
    let client = connect(&agent).await;
    let mut execution =
        client.execute(ExecuteRequest { stream: true, ..shell(&line) }).await.expect("started");
    assert!(matches!(execution.next().await, Ok(Some(Event::Output { .. }))));
    let newer = connect(&agent).await;
    let lost = tokio::time::timeout(SOON, execution.wait()).await.expect("it ends");
    assert!(matches!(lost, Err(AgentError::Lost { .. })), "{lost:?}");
    agent.soon_gone(&marker).await;
    assert_eq!(newer.run(shell("echo new")).await.expect("finished").stdout.text, "new\n");
}

fn hello() -> wire::HelloRequest {
    wire::HelloRequest { version: Some(rekindle_protocol::VERSION), program: String::new() }
}

/// A session whose host can vanish without a word, which a client would not do.
struct Rude {
    opener: mux::Opener,
    moving: tokio::task::JoinHandle<()>,
}

impl Rude {
    async fn begin(io: LineEnd) -> Self {
        let soon = tokio::time::Instant::now() + SOON;
        let (answer, io) = preamble::initiate(io, hello(), soon).await.expect("an answer");
        assert!(matches!(answer, wire::response::Reply::Hello(_)));
        let (opener, _, driver) = mux::session(io, mux::Side::Host);
        Self { opener, moving: tokio::spawn(driver) }
    }

    async fn ask(&self, op: Op) -> mux::Stream {
        let mut stream = self.opener.open().await.expect("a stream");
        frame::write(&mut stream, &wire::Request { op: Some(op) }).await.expect("sent");
        stream
    }

    /// From one byte to the next nobody is there any more.
    async fn vanish(self) {
        self.moving.abort();
        let _ = self.moving.await;
    }
}

fn on_a_line() -> Setup {
    Setup { transport: Transport::Terminal, ..Setup::default() }
}

async fn connect_on(agent: &Agent) -> AgentClient {
    AgentClient::connect(agent.line(), SOON).await.expect("a session")
}

#[tokio::test]
async fn a_serial_line_carries_one_session_after_the_other() {
    let mut agent = agent!(on_a_line());
    agent.answers().await;
    for round in 0..20 {
        agent.client = connect_on(&agent).await;
        let line = format!("echo {round}; head -c 300000 /dev/zero");
        let finished = agent.client.run(shell(&line)).await.expect("finished");
        assert_eq!(finished.stdout.total_bytes, 300_000 + format!("{round}\n").len() as u64);
        assert!(finished.stdout.text.starts_with(&format!("{round}\n")));
    }
}

#[tokio::test]
async fn every_byte_value_survives_a_serial_line() {
    let agent = agent!(on_a_line());
    let content: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let name = path("file");
    agent.client.upload_bytes(&name, Default::default(), &content, PATIENCE).await.expect("uploaded");
    let mut back = Vec::new();
    agent.client.download(&name, 1 << 30, &mut back, PATIENCE).await.expect("downloaded");
    assert!(back == content);
}

#[tokio::test]
async fn what_an_old_session_left_on_the_line_never_reaches_a_new_one() {
    let mut agent = agent!(on_a_line());
    for round in 0..5 {
        let marker = marker();
        let rude = Rude::begin(agent.line()).await;
        let mut held = Vec::new();
        // Answers to old questions, and a flood, are under way when the host vanishes.
        let flood = format!("while :; do echo stale; done & sleep {marker}");
        for _ in 0..3 {
            let request = ExecuteRequest { stream: true, ..shell(&flood) };
            held.push(rude.ask(Op::Execute(request)).await);
        }
        for _ in 0..20 {
            held.push(rude.ask(Op::Ping(wire::PingRequest {})).await);
        }
        let mut some = [0; 2000];
        held[0].read_exact(&mut some).await.expect("the flood has begun");
        rude.vanish().await;
        drop(held);

        agent.client = connect_on(&agent).await;
        let finished = agent.client.run(shell("echo fresh")).await.expect("finished");
        assert_eq!(
            (finished.outcome, &finished.stdout.text[..]),
            (Outcome::Exited(0), "fresh\n"),
            "round {round}"
        );
        agent.soon_gone(&marker).await;
    }
}

#[tokio::test]
async fn a_host_that_vanishes_inside_a_frame_does_not_block_the_next() {
    let mut agent = agent!(on_a_line());
    // A data frame of the multiplexer that announces far more than follows.
    let header = |length: u32| [&[0u8, 0, 0, 1, 0, 0, 0, 1][..], &length.to_be_bytes()].concat();
    for cut in [1usize, 7, 12, 500] {
        let mut rude = agent.line();
        let mut opening = bytes::BytesMut::new();
        let request = wire::Request { op: Some(Op::Hello(hello())) };
        preamble::append(&mut opening, [cut as u8; 16], &request);
        let mut frame = header(60_000);
        frame.resize(12 + 1000, 0x55);
        opening.extend_from_slice(&frame[..cut]);
        rude.write_all(&opening).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(rude);
        agent.client = connect_on(&agent).await;
        agent.answers().await;
    }
}

#[tokio::test]
async fn noise_on_the_line_is_ignored_until_a_host_speaks() {
    let mut agent = agent!(on_a_line());
    let mut noise = vec![0u8; 100_000];
    for _ in 0..5 {
        getrandom::fill(&mut noise).expect("random bytes");
        let mut line = agent.line();
        let (mut reader, mut writer) = tokio::io::split(&mut line);
        let mut nowhere = tokio::io::sink();
        tokio::select! {
            sent = writer.write_all(&noise) => sent.expect("sent"),
            _ = tokio::io::copy(&mut reader, &mut nowhere) => {}
        }
        agent.client = connect_on(&agent).await;
        agent.answers().await;
    }
}
