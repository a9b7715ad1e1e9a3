//! A guest that speaks the multiplexer's frames by itself, and so does what no agent would.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rekindle::agent::AgentClient;
use rekindle::network::Gate;
use rekindle_protocol::wire::{self, EgressRequest, egress_request, response::Reply};
use rekindle_protocol::{VERSION, frame, preamble};
use rekindle_test_support::wait::PATIENCE;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::io::{ReadHalf, WriteHalf};

/// What a stream may carry before its reader says more.
pub const WINDOW: usize = 256 * 1024;
/// Bytes of one frame that the guest sends.
const BODY: usize = 32 * 1024;

const DATA: u8 = 0;
const WINDOW_UPDATE: u8 = 1;
const OPEN: u8 = 1;
const RESET: u8 = 8;

/// What the host has said about a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// Bytes that may be sent on it.
    pub credit: usize,
    /// Bytes that came on it.
    pub bytes: usize,
    /// It was reset.
    pub reset: bool,
}

/// The guest. Its session ends with it.
pub struct RawGuest {
    _host: AgentClient,
    writer: WriteHalf<preamble::Prefixed<DuplexStream>>,
    reader: Option<ReadHalf<preamble::Prefixed<DuplexStream>>>,
    told: Arc<Mutex<HashMap<u32, Told>>>,
}

impl RawGuest {
    /// One whose connections go through this gate.
    pub async fn new(gate: &Arc<Gate>) -> Self {
        let (host, guest) = tokio::io::duplex(64 * 1024);
        let hello = |_: &wire::HelloRequest| {
            let capabilities = wire::Capabilities {
                kill_scope: wire::KillScope::Cgroup.into(),
                ..wire::Capabilities::default()
            };
            Reply::Hello(wire::HelloResponse {
                version: Some(VERSION),
                capabilities: Some(capabilities),
                ..wire::HelloResponse::default()
            })
        };
        let (host, guest) =
            tokio::join!(AgentClient::connect(host, PATIENCE), preamble::respond(guest, hello));
        let (host, guest) = (host.expect("a session"), guest.expect("a session").expect("a host"));
        tokio::spawn(Arc::clone(gate).serve(host.take_streams(), Arc::clone(host.meter())));
        let (reader, writer) = tokio::io::split(guest);
        Self { _host: host, writer, reader: Some(reader), told: Arc::default() }
    }

    /// Hears the host from now on. Until then it hears nothing.
    pub fn listen(&mut self) {
        let Some(reader) = self.reader.take() else { return };
        let told = Arc::clone(&self.told);
        tokio::spawn(async move { hear(reader, &told).await });
    }

    /// What was said about every stream.
    pub fn told(&self) -> MutexGuard<'_, HashMap<u32, Told>> {
        self.told.lock().expect("no panic")
    }

    /// Asks for a connection on a stream that is sent so many bytes without asking. False when the session is over.
    pub async fn connect(&mut self, stream: u32, host: &str, window: u32) -> bool {
        let target = Some(egress_request::Target::Name(host.to_owned()));
        let request = EgressRequest { target, port: 7, execution: 3 };
        let request = frame::encode(&request).expect("short");
        let opened = [&head(WINDOW_UPDATE, OPEN, stream, window)[..], &body(stream, &request)].concat();
        self.told().insert(stream, Told { credit: WINDOW - request.len(), ..Told::default() });
        self.writer.write_all(&opened).await.is_ok()
    }

    /// Sends as much as may be sent; how much that was.
    pub async fn fill(&mut self, stream: u32) -> usize {
        let credit = match self.told().get_mut(&stream) {
            Some(told) if !told.reset => std::mem::take(&mut told.credit),
            _ => 0,
        };
        let mut sent = 0;
        while sent < credit {
            let piece = BODY.min(credit - sent);
            if self.writer.write_all(&body(stream, &vec![b'x'; piece])).await.is_err() {
                break;
            }
            sent += piece;
        }
        sent
    }
}

async fn hear(mut from: impl AsyncRead + Unpin, told: &Mutex<HashMap<u32, Told>>) {
    let (mut head, mut rest) = ([0; 12], vec![0; 1 << 20]);
    while from.read_exact(&mut head).await.is_ok() {
        let [_, kind, _, flags, a, b, c, d, length @ ..] = head;
        let (stream, length) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes(length) as usize);
        if kind == DATA && from.read_exact(&mut rest[..length]).await.is_err() {
            return;
        }
        let mut told = told.lock().expect("no panic");
        let Some(told) = told.get_mut(&stream) else { continue };
        match kind {
            DATA => told.bytes += length,
            WINDOW_UPDATE => told.credit += length,
            _ => {}
        }
        told.reset |= flags & RESET != 0;
    }
}

fn head(kind: u8, flags: u8, stream: u32, length: u32) -> Vec<u8> {
    [&[0, kind, 0, flags][..], &stream.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn body(stream: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short");
    [&head(DATA, 0, stream, length)[..], bytes].concat()
}
