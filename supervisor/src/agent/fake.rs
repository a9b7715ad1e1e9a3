//! An agent for tests that says whatever a test wants it to say.

use std::time::Duration;

use rekindle_protocol::frame;
use rekindle_protocol::mux::{self, Incoming, Opener, Side, Stream};
use rekindle_protocol::wire::{
    Capabilities, Done, Error, ErrorCode, HelloResponse, KillScope, Request, Response, Version, request::Op,
    response::Reply,
};
use rekindle_protocol::{VERSION, preamble};
use tokio::io::DuplexStream;

use super::AgentClient;

/// A deadline that only a hang reaches.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// The guest's end of a session.
pub(super) struct Fake {
    incoming: Incoming,
    /// Opens streams the host never asked for.
    pub(super) opener: Opener,
}

impl Fake {
    /// Answers hello with this; `None` when the host does not want a session then.
    pub(super) async fn accept(io: DuplexStream, answer: Reply) -> Option<Self> {
        let io = preamble::respond(io, |_| answer.clone()).await.expect("a preamble")?;
        let (opener, incoming, driver) = mux::session(io, Side::Guest);
        tokio::spawn(driver);
        Some(Self { incoming, opener })
    }

    /// The next request, with the stream to answer it on.
    pub(super) async fn next(&mut self) -> (Op, Stream) {
        let mut stream = self.incoming.next().await.expect("a stream");
        let request: Request = frame::read(&mut stream).await.expect("a request").expect("no end");
        (request.op.expect("an operation"), stream)
    }

    /// Waits until the host has ended the session.
    pub(super) async fn over(mut self) {
        while self.incoming.next().await.is_some() {}
    }
}

/// An introduction nobody could object to.
pub(super) fn hello() -> HelloResponse {
    HelloResponse {
        version: Some(VERSION),
        program: "fake 0".to_owned(),
        capabilities: Some(Capabilities {
            kill_scope: KillScope::Cgroup.into(),
            memory_limits: true,
            pids_limits: true,
            cpu_limits: true,
            init: true,
        }),
        gate_open: true,
        running: 0,
    }
}

/// An introduction from another time.
pub(super) fn hello_of(major: u32, minor: u32) -> HelloResponse {
    HelloResponse { version: Some(Version { major, minor }), ..hello() }
}

/// Sends one reply.
pub(super) async fn say(stream: &mut Stream, reply: Reply) {
    // The host may have turned away already, which is its right.
    let _ = frame::write(stream, &Response { reply: Some(reply) }).await;
}

/// A refusal.
pub(super) fn error(code: ErrorCode, message: &str) -> Reply {
    Reply::Error(Error { code: code.into(), message: message.to_owned() })
}

/// Plain success.
pub(super) fn done() -> Reply {
    Reply::Done(Done {})
}

/// A client with a session, and the agent at its other end.
pub(super) async fn connected() -> (AgentClient, Fake) {
    let (host, guest) = tokio::io::duplex(64 * 1024);
    let agent = tokio::spawn(Fake::accept(guest, Reply::Hello(hello())));
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    (client, agent.await.expect("an agent").expect("a session"))
}
