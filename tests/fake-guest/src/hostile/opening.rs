//! The first bytes of a connection, wrongly: everything but the host's own nonce with a hello behind it.

use bytes::{BufMut, BytesMut};
use rekindle_protocol::preamble::{MAGIC, NONCE};
use rekindle_protocol::wire::{self, response::Reply};
use rekindle_protocol::{VERSION, frame};
use rekindle_test_support::random::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{lies, pace};

/// More than the host is willing to discard.
const MORE_THAN_ALLOWED: usize = 17 << 20;

/// What follows.
pub(super) enum After {
    /// The host may have taken it for a hello.
    Session,
    End,
    Silence,
}

/// An introduction nobody could object to.
pub(super) fn hello() -> wire::HelloResponse {
    wire::HelloResponse {
        version: Some(VERSION),
        program: "hostile 0".into(),
        capabilities: Some(wire::Capabilities {
            kill_scope: wire::KillScope::Cgroup.into(),
            memory_limits: true,
            pids_limits: true,
            cpu_limits: true,
            init: true,
        }),
        gate_open: false,
        running: 0,
    }
}

/// Answers the host's opening in one of many wrong ways.
pub(super) async fn trick(random: &mut Random, io: &mut DuplexStream) -> After {
    if random.one_in(12) {
        return After::End;
    }
    let Some(nonce) = opening(io).await else { return After::End };
    let after = |random: &mut Random| if random.one_in(2) { After::End } else { After::Silence };
    let whole = answer(nonce, &Reply::Hello(hello()));
    match random.below(13) {
        0 => after(random),
        1 => send(io, &random.bytes(4096)).await.map_or(After::End, |()| after(random)),
        2 => flood(random, io).await,
        // The preamble alone, as agents of protocol 1 echo it.
        3 => {
            let _ = send(io, &whole[..MAGIC.len() + NONCE]).await;
            after(random)
        }
        4 => {
            let wrong = nonce.map(|byte| byte ^ 1);
            let _ = send(io, &answer(wrong, &Reply::Hello(hello()))).await;
            after(random)
        }
        5 => {
            let cut = random.below(whole.len() as u64) as usize;
            let _ = send(io, &whole[..cut]).await;
            after(random)
        }
        6 => {
            let mut huge = BytesMut::from(&whole[..MAGIC.len() + NONCE]);
            huge.put_u32(random.pick(&[u32::MAX, 1 << 31, 1 << 24, 70_000]));
            huge.put_slice(&random.bytes(1000));
            let _ = send(io, &huge).await;
            after(random)
        }
        7 => {
            let _ = send(io, &answer(nonce, &lies::any_reply(random))).await;
            after(random)
        }
        8 => {
            let refusal = wire::Error { code: lies::small(random), message: lies::text(random) };
            let _ = send(io, &answer(nonce, &Reply::Error(refusal))).await;
            after(random)
        }
        9 => {
            let strange = strange_hello(random);
            let _ = send(io, &answer(nonce, &Reply::Hello(strange))).await;
            After::Session
        }
        // Twice: the second one lies where the multiplexer begins.
        10 => {
            let _ = send(io, &[&whole[..], &whole[..]].concat()).await;
            After::Session
        }
        // Stale bytes before it, and beginnings of preambles among them.
        11 => {
            let mut stale = random.bytes(10_000);
            stale.extend_from_slice(&MAGIC);
            stale.extend_from_slice(&MAGIC[..7]);
            let _ = send(io, &[&stale[..], &whole[..]].concat()).await;
            After::Session
        }
        _ => {
            for byte in &whole {
                if send(io, &[*byte]).await.is_none() {
                    return After::End;
                }
                tokio::time::sleep(pace(random)).await;
            }
            After::Session
        }
    }
}

/// Noise without end, or magic words without end, faster or slower.
async fn flood(random: &mut Random, io: &mut DuplexStream) -> After {
    let piece = if random.one_in(2) { random.bytes(16 * 1024) } else { MAGIC.repeat(1024) };
    let pace = pace(random);
    let mut sent = 0;
    while sent < MORE_THAN_ALLOWED {
        if send(io, &piece).await.is_none() {
            return After::End;
        }
        sent += piece.len();
        tokio::time::sleep(pace).await;
    }
    After::Silence
}

fn strange_hello(random: &mut Random) -> wire::HelloResponse {
    let mut strange = hello();
    match random.below(6) {
        0 => strange.version = None,
        1 => strange.version = Some(wire::Version { major: lies::size(random) as u32, minor: 0 }),
        2 => strange.version = Some(wire::Version { minor: lies::size(random) as u32, ..VERSION }),
        3 => strange.capabilities = None,
        4 => {
            let honest = strange.capabilities.unwrap_or_default();
            strange.capabilities = Some(wire::Capabilities { kill_scope: lies::small(random), ..honest });
        }
        _ => strange.program = lies::text(random).chars().take(3_000).collect(),
    }
    strange.running = lies::size(random) as u32;
    strange.gate_open = random.one_in(2);
    strange
}

/// Reads what the host begins with; its nonce.
async fn opening(io: &mut DuplexStream) -> Option<[u8; NONCE]> {
    let mut head = [0; MAGIC.len() + NONCE + 4];
    io.read_exact(&mut head).await.ok()?;
    let (_, rest) = head.split_first_chunk::<{ MAGIC.len() }>()?;
    let (nonce, length) = rest.split_first_chunk::<NONCE>()?;
    let mut hello = vec![0; u32::from_be_bytes(length.try_into().ok()?) as usize];
    io.read_exact(&mut hello).await.ok()?;
    Some(*nonce)
}

fn answer(nonce: [u8; NONCE], reply: &Reply) -> Vec<u8> {
    let response = wire::Response { reply: Some(reply.clone()) };
    let message = frame::encode(&response).unwrap_or_default();
    [&MAGIC[..], &nonce, &message].concat()
}

/// Whether the host still listens.
async fn send(io: &mut DuplexStream, bytes: &[u8]) -> Option<()> {
    io.write_all(bytes).await.ok()
}
