//! Frames of the multiplexer, made by hand: what no library sends.

use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::{frame, wire};
use rekindle_test_support::random::Random;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::{lies, pace};

const DATA: u8 = 0;
const WINDOW: u8 = 1;
const PING: u8 = 2;
const GO_AWAY: u8 = 3;

const SYN: u16 = 1;
const ACK: u16 = 2;
const FIN: u16 = 4;
const RST: u16 = 8;

/// Says whatever the seed draws until the host hangs up or there is nothing more to say.
pub(super) async fn converse(random: &mut Random, io: impl AsyncRead + AsyncWrite + Unpin) {
    let (mut reader, mut writer) = tokio::io::split(io);
    // Half of them never read at all.
    let deaf = random.one_in(2);
    let mut bytes = random.fork();
    let say = async {
        if !random.one_in(4) {
            // The host's first request comes first.
            sleep(pace(random)).await;
        }
        for _ in 0..random.below(40) {
            let said = utterance(&mut bytes);
            if writer.write_all(&said).await.is_err() {
                return;
            }
            if bytes.one_in(4) {
                sleep(pace(&mut bytes)).await;
            }
        }
        if bytes.one_in(2) {
            return;
        }
        std::future::pending::<()>().await;
    };
    let listen = async {
        let mut buffer = vec![0; 64 * 1024];
        while !deaf && reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        if deaf {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = say => {}
        () = listen => {}
    }
}

/// A few frames of one kind.
fn utterance(random: &mut Random) -> Vec<u8> {
    // The host's own streams are 1, 3, 5 and so on.
    let stream = random.pick(&[0, 1, 3, 5, 7, 2, 4, 99, u32::MAX]);
    let reply =
        frame::encode(&wire::Response { reply: Some(Reply::Done(wire::Done {})) }).unwrap_or_default();
    match random.below(16) {
        0 => random.bytes(300),
        1 => head(0, GO_AWAY, 0, 0, lies::size(random) as u32),
        2 => head(0, PING, random.pick(&[SYN, ACK, 0]), 0, 7).repeat(2_000),
        3 => head(random.pick(&[1, 9, 255]), DATA, 0, stream, 0),
        4 => body(DATA, 0, stream, &random.bytes(1_000)),
        5 => body(DATA, SYN, stream, &random.bytes(10)),
        6 => (1..500_u32).flat_map(|at| body(DATA, SYN, at * 2, b"hi")).collect(),
        7 => (0..20).flat_map(|_| body(DATA, 0, stream, &[0; 60_000])).collect(),
        8 => head(0, WINDOW, random.pick(&[0, SYN, ACK, FIN]), stream, u32::MAX).repeat(3),
        9 => [&head(0, DATA, 0, stream, random.pick(&[u32::MAX, 1 << 20, (1 << 20) + 1]))[..], &[0; 100]]
            .concat(),
        // A reply, each byte of it in a frame of its own.
        10 => reply.iter().flat_map(|byte| body(DATA, ACK, stream, &[*byte])).collect(),
        11 => head(0, random.pick(&[DATA, WINDOW]), random.pick(&[FIN, RST, FIN | RST, u16::MAX]), stream, 0),
        12 => head(0, random.pick(&[4, 77, 255]), 0, stream, 0),
        13 => head(0, DATA, 0, stream, 0).repeat(3_000),
        14 => body(DATA, ACK | FIN, stream, &reply),
        _ => body(DATA, ACK, stream, &frame_of(random)),
    }
}

fn frame_of(random: &mut Random) -> Vec<u8> {
    let reply = lies::any_reply(random);
    frame::encode(&wire::Response { reply: Some(reply) }).unwrap_or_default().to_vec()
}

fn head(version: u8, kind: u8, flags: u16, stream: u32, length: u32) -> Vec<u8> {
    let [first, second] = flags.to_be_bytes();
    [&[version, kind, first, second][..], &stream.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn body(kind: u8, flags: u16, stream: u32, body: &[u8]) -> Vec<u8> {
    [&head(0, kind, flags, stream, body.len() as u32)[..], body].concat()
}
