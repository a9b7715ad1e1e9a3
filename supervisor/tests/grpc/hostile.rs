//! Clients that mean harm, or know no better: each affects only itself. All the while a good client works, and
//! the memory of this process, server and guests and all, stays within bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use rekindle::door::ConnectionLimits;
use rekindle_api::v1::{self, execute_input::Input};
use rekindle_api::{Code, client::Client};
use rekindle_test_support::wait::{in_time, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::place::{Place, Wishes, output, shell};
use crate::raw;

/// How much more memory all tests of this process together may take while one of these runs.
const BOUND: u64 = 400 << 20;

/// A client that minds its own business.
struct Good {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    task: JoinHandle<()>,
    memory: u64,
}

impl Good {
    async fn start(place: &Place) -> Self {
        let mut client = place.client().await;
        let (id, _) = place.sandbox(&mut client).await;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&done));
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                assert_eq!(in_time("a good call", output(&mut client, &id, "echo ok")).await, "ok\n");
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self { stop, done, task, memory: resident() }
    }

    /// Waits for some more good calls: whatever is going on does not stop them.
    async fn goes_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        until("good calls", || self.done.load(Ordering::Relaxed) >= before + 5 || self.task.is_finished())
            .await;
        assert!(!self.task.is_finished(), "a good call failed");
        let grown = resident().saturating_sub(self.memory);
        assert!(grown < BOUND, "{} MiB more", grown >> 20);
    }

    async fn finish(self) {
        self.goes_on().await;
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("every call was good");
    }
}

/// Memory this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib << 10
}

/// HTTP/2 by hand, for what no library lets one send.
struct Wire(UnixStream);

impl Wire {
    async fn connect(place: &Place) -> Self {
        let mut io = UnixStream::connect(&place.socket).await.expect("connected");
        io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
        io.write_all(&frame(4, 0, 0, &[])).await.expect("sent");
        Self(io)
    }

    /// Sends until the server closes; whether it did.
    async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }

    /// Types of the frames that arrive until nothing has for a while, or the server hung up.
    async fn frames(&mut self) -> Vec<u8> {
        let mut types = Vec::new();
        loop {
            let mut head = [0; 9];
            let read = tokio::time::timeout(Duration::from_millis(1500), self.0.read_exact(&mut head)).await;
            if !matches!(read, Ok(Ok(_))) {
                return types;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut body = vec![0; length];
            if self.0.read_exact(&mut body).await.is_err() {
                return types;
            }
            types.push(head[3]);
        }
    }
}

const RST_STREAM: u8 = 3;
const GO_AWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head[..], body].concat()
}

/// Headers of a call, not compressed.
fn headers(stream: u32, path: &str, end: bool) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")][..], text.as_bytes()].concat();
    let block = [
        vec![0x83, 0x86, 0x04],
        text(path),
        vec![0x01],
        text("rekindle.invalid"),
        vec![0x00],
        text("content-type"),
        text("application/grpc"),
        vec![0x00],
        text("te"),
        text("trailers"),
    ]
    .concat();
    frame(1, if end { 0x05 } else { 0x04 }, stream, &block)
}

const LIST: &str = "/rekindle.v1.Sandboxes/List";
const STREAM: &str = "/rekindle.v1.Sandboxes/ExecuteStream";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_gibibyte_is_refused_before_it_is_read() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    for path in [raw::EXECUTE, "/rekindle.v1.Files/Upload", STREAM] {
        let mut send = raw::connect(&place.socket).await;
        let (answer, mut body) = raw::call(&mut send, path, HeaderMap::new()).await;
        let announced = [&[0][..], &(1_u32 << 30).to_be_bytes()].concat();
        body.send_data(announced.into(), false).expect("sent");
        let pushing = tokio::spawn(async move {
            // As much as it is let, up to 64 MiB.
            let piece = Bytes::from(vec![b'x'; 64 << 10]);
            for _ in 0..1024 {
                body.reserve_capacity(piece.len());
                let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
                if !matches!(room, Some(Ok(_))) || body.send_data(piece.clone(), false).is_err() {
                    return;
                }
            }
        });
        let status = in_time("an answer", raw::status(answer)).await;
        let refused =
            matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument);
        assert!(refused, "{path}: {status:?}");
        good.goes_on().await;
        pushing.abort();
    }
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_at_once_are_all_answered() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let calls: Vec<_> = (0..3000)
        .map(|number| {
            let (mut client, id) = (client.clone(), id.clone());
            tokio::spawn(async move {
                let answer = match number % 3 {
                    0 => client.sandboxes.get(v1::GetSandboxRequest { sandbox: id }).await.map(drop),
                    1 => client.sandboxes.execute(shell(&id, "true")).await.map(drop),
                    _ => client
                        .sandboxes
                        .get(v1::GetSandboxRequest { sandbox: "nobody".into() })
                        .await
                        .map(drop),
                };
                (number % 3 == 2, answer)
            })
        })
        .collect();
    good.goes_on().await;
    for call in calls {
        let (wrong, answer) = call.await.expect("no panic");
        match answer {
            Ok(()) => assert!(!wrong),
            // A sandbox takes so many at once and says so.
            Err(status) => {
                assert!(matches!(status.code(), Code::NotFound | Code::ResourceExhausted), "{status:?}");
            }
        }
    }
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_on_one_connection_are_cut_to_what_is_allowed() {
    let place = Place::with(Wishes { max_streams: 50, ..Wishes::default() }).await;
    let good = Good::start(&place).await;
    let mut wire = Wire::connect(&place).await;
    let many: Vec<u8> = (0..1000).flat_map(|number| headers(2 * number + 1, STREAM, false)).collect();
    wire.send(&many).await;
    let types = wire.frames().await;
    let refused = types.iter().filter(|kind| **kind == RST_STREAM).count();
    assert!(refused >= 900 || types.contains(&GO_AWAY), "{refused} of {}", types.len());
    good.goes_on().await;
    drop(wire);
    let calls = || place.audit().iter().filter(|line| line["method"] == "Sandboxes/ExecuteStream").count();
    until("given up", || calls() > 0).await;
    good.finish().await;
    assert!(calls() <= 50, "{}", calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_and_given_up_at_once_cost_the_connection() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    let mut wire = Wire::connect(&place).await;
    let mut closed = false;
    for round in 0..200_u32 {
        let storm: Vec<u8> = (0..100)
            .map(|number| 2 * (round * 100 + number) + 1)
            .flat_map(|stream| {
                [headers(stream, LIST, false), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
            })
            .collect();
        if !wire.send(&storm).await {
            closed = true;
            break;
        }
    }
    closed |= wire.frames().await.contains(&GO_AWAY);
    assert!(closed, "twenty thousand resets must not be taken");
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_reads_is_not_read_ahead_for() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut client: Client = place.client().await;
        let (id, guest) = place.sandbox(&mut client).await;
        let start = v1::ExecuteStart { request: Some(shell(&id, "flood 4000000000")), ..Default::default() };
        let word = v1::ExecuteInput { input: Some(Input::Start(start)) };
        let events = client.sandboxes.execute_stream(futures::stream::iter([word])).await.expect("started");
        held.push((client, events, guest));
    }
    good.goes_on().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    good.goes_on().await;
    assert!(held.iter().all(|(_, _, guest)| guest.running() == 1), "they are held up, not finished");
    // Calls whose answers nobody takes off the socket.
    let mut wire = Wire::connect(&place).await;
    let asked = async {
        for number in 0..200_000 {
            let call = [headers(2 * number + 1, LIST, false), frame(0, 1, 2 * number + 1, &[0; 5])].concat();
            if !wire.send(&call).await {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), asked).await;
    good.goes_on().await;
    let guests: Vec<_> = held.into_iter().map(|(_, _, guest)| guest).collect();
    until("killed", || guests.iter().all(|guest| guest.running() == 0)).await;
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_answered_with_an_error_or_a_closed_connection() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    let noise: Vec<u8> =
        (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let beginnings = [
        noise.clone(),
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        [&preface[..], &noise].concat(),
        [&preface[..], &frame(4, 0, 0, &[1, 2, 3])].concat(),
        [&preface[..], &frame(4, 0, 0, &[]), &frame(1, 4, 1, &noise[..4000])].concat(),
        [&preface[..], &frame(4, 0, 0, &[]), &frame(8, 0, 0, &[0; 4])].concat(),
        vec![0; 1 << 20],
    ];
    for (number, beginning) in beginnings.iter().enumerate() {
        let mut io = UnixStream::connect(&place.socket).await.expect("connected");
        // The server may close before it has taken everything.
        let _ = io.write_all(beginning).await;
        let mut answer = Vec::new();
        // One that is HTTP is answered, and closed when nothing has come for some time.
        let _ = in_time(&format!("the end of beginning {number}"), io.read_to_end(&mut answer)).await;
    }
    // Calls that are HTTP/2, and no gRPC.
    let mut send = raw::connect(&place.socket).await;
    for (path, body) in [
        (raw::EXECUTE, raw::framed(&noise[..1000])),
        (raw::EXECUTE, Bytes::from_static(&[1, 0, 0, 0, 1, 7])),
        (raw::EXECUTE, Bytes::from_static(&[9, 0, 0, 0, 0])),
        (raw::EXECUTE, Bytes::from_static(&[0, 0, 0, 0, 9, 1])),
        (STREAM, raw::framed(&noise[..1000])),
        ("/rekindle.v1.Sandboxes/Nothing", raw::framed(&[])),
        ("/", raw::framed(&[])),
    ] {
        let (answer, mut sending) = raw::call(&mut send, path, HeaderMap::new()).await;
        // A call may be refused on its headers, before it has a body.
        let _ = sending.send_data(body, true);
        let status = raw::status(answer).await;
        assert_ne!(status.code(), Code::Ok, "{path}");
    }
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_nothing_loses_its_place_to_who_waits_for_one() {
    let place = Place::with(Wishes {
        connections: ConnectionLimits { socket: 4, ..ConnectionLimits::default() },
        ..Wishes::default()
    })
    .await;
    let good = Good::start(&place).await;
    let mut silent = Vec::new();
    for beginning in [&b""[..], b"PRI", b"P"] {
        let mut io = UnixStream::connect(&place.socket).await.expect("connected");
        io.write_all(beginning).await.expect("sent");
        silent.push(io);
    }
    // All places are taken: one more must wait until the silent ones are given up.
    let waiting = tokio::spawn({
        let socket = place.socket.clone();
        async move {
            let mut send = raw::connect(&socket).await;
            let (answer, mut body) = raw::call(&mut send, LIST, HeaderMap::new()).await;
            body.send_data(raw::framed(&[]), true).expect("sent");
            raw::status(answer).await
        }
    });
    good.goes_on().await;
    assert!(!waiting.is_finished());
    let status = in_time("a place", waiting).await.expect("no panic");
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    for mut io in silent {
        let mut rest = Vec::new();
        let _ = in_time("given up", io.read_to_end(&mut rest)).await;
    }
    good.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_come_and_vanish_leave_nothing() {
    let place = Place::new().await;
    let good = Good::start(&place).await;
    let (id, guest) = {
        let mut client = place.client().await;
        place.sandbox(&mut client).await
    };
    for round in 0..60_u64 {
        let mut client = place.client().await;
        let request = shell(&id, "sleep 600000");
        let call = tokio::spawn(async move { client.sandboxes.execute(request).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(round % 7)).await;
        call.abort();
    }
    until("killed", || guest.running() == 0).await;
    good.finish().await;
    let mut client = place.client().await;
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}
