//! What an answer should be, and what it is instead: sizes, totals, names, numbers and texts that are not true.

use bytes::Bytes;
use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::wire::execute_result::Outcome;
use rekindle_protocol::wire::{self, request::Op, response::Reply};
use rekindle_test_support::random::Random;

/// A file's content as it is told in good order.
const CONTENT: &[u8] = b"what the file holds";

/// Numbers at the edges.
pub(super) fn size(random: &mut Random) -> u64 {
    const EDGES: [u64; 13] =
        [0, 1, 2, 255, 256, 257, 4_001, 65_536, 1 << 20, u32::MAX as u64, 1 << 40, 1 << 63, u64::MAX];
    if random.one_in(4) { random.number() } else { random.pick(&EDGES) }
}

/// Numbers of an enumeration, and numbers of none.
pub(super) fn small(random: &mut Random) -> i32 {
    random.pick(&[-1, 0, 1, 2, 3, 7, 16, 17, 18, 99, i32::MAX, i32::MIN])
}

/// Texts of any length, some of which move a terminal's cursor.
pub(super) fn text(random: &mut Random) -> String {
    match random.below(7) {
        0 => String::new(),
        1 => "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n".repeat(50),
        2 => "\u{202e}\u{2028}\u{feff}".repeat(1000),
        3 => "x".repeat(300_000),
        4 => "😀".repeat(random.below(2_000) as usize),
        5 => "nul\0in\0it".to_owned(),
        _ => "a word".to_owned(),
    }
}

fn data(random: &mut Random) -> Bytes {
    let length = random.pick(&[0, 1, 100, 65_536, 262_144, 262_145, 900_000]);
    vec![b'd'; length].into()
}

fn path(random: &mut Random) -> Bytes {
    let any = random.bytes(20);
    let long = vec![b'p'; random.pick(&[255, 4_096, 4_097, 100_000])];
    random
        .pick(&[
            b"name".to_vec(),
            b"../../etc/shadow".to_vec(),
            b"..".to_vec(),
            Vec::new(),
            b"a\0b".to_vec(),
            any,
            long,
        ])
        .into()
}

fn outcome(random: &mut Random) -> Option<Outcome> {
    let number = size(random) as u32;
    match random.below(6) {
        0 => None,
        1 => Some(Outcome::Exited(number)),
        2 => Some(Outcome::Signaled(number)),
        3 => Some(Outcome::TimedOut(wire::TimedOut { limit_millis: size(random) })),
        4 => Some(Outcome::OutOfMemory(wire::OutOfMemory { limit_bytes: size(random) })),
        _ => Some(Outcome::Cancelled(wire::Cancelled {})),
    }
}

fn collected(random: &mut Random) -> wire::CollectedOutput {
    let text = text(random);
    let (true_chars, any) = (text.chars().count() as u64, random.number());
    let total_chars = random.pick(&[true_chars, any, u64::MAX]);
    let total_bytes = random.pick(&[text.len() as u64, total_chars, total_chars.saturating_mul(4), u64::MAX]);
    let kept = random.one_in(2);
    wire::CollectedOutput {
        truncated: random.one_in(2),
        total_bytes,
        total_chars,
        spilled_path: if kept { path(random) } else { Bytes::new() },
        spilled_bytes: if kept { size(random) } else { 0 },
        text,
    }
}

fn result(random: &mut Random) -> wire::ExecuteResult {
    let honest = honest_result();
    let kind = small(random);
    wire::ExecuteResult {
        outcome: if random.one_in(2) { outcome(random) } else { honest.outcome },
        stdout: if random.one_in(3) { None } else { Some(collected(random)) },
        stderr: if random.one_in(2) { honest.stderr } else { Some(collected(random)) },
        usage: (!random.one_in(4)).then(|| wire::Usage {
            wall_micros: size(random),
            cpu_micros: size(random),
            peak_memory_bytes: size(random),
        }),
        diagnosis: random.one_in(2).then(|| wire::Diagnosis {
            kind,
            subject: text(random),
            message: text(random),
            language: kind,
        }),
        interpreter: small(random),
    }
}

fn honest_result() -> wire::ExecuteResult {
    wire::ExecuteResult {
        outcome: Some(Outcome::Exited(0)),
        stdout: Some(wire::CollectedOutput {
            text: "ok\n".into(),
            total_bytes: 3,
            total_chars: 3,
            ..wire::CollectedOutput::default()
        }),
        stderr: Some(wire::CollectedOutput::default()),
        usage: Some(wire::Usage { wall_micros: 1, cpu_micros: 1, peak_memory_bytes: 1 }),
        ..wire::ExecuteResult::default()
    }
}

fn file(random: &mut Random) -> wire::FileInfo {
    wire::FileInfo {
        path: path(random),
        kind: small(random),
        size: size(random),
        mode: size(random) as u32,
        uid: size(random) as u32,
        gid: size(random) as u32,
        modified_nanos: size(random) as i64,
        link_target: if random.one_in(2) { path(random) } else { Bytes::new() },
        checksum: random.number(),
        owner: short(random),
        group: short(random),
        link_kind: small(random),
        metadata: (0..random.pick(&[0, 0, 1, 3, 50])).map(|_| metadata(random)).collect(),
    }
}

fn metadata(random: &mut Random) -> wire::FileMetadata {
    wire::FileMetadata { name: short(random), value: short(random) }
}

/// A text of which many fit in a frame.
fn short(random: &mut Random) -> String {
    text(random).chars().take(random.pick(&[5, 70, 300])).collect()
}

fn honest_file(path: Bytes, size: u64, checksum: u64) -> wire::FileInfo {
    wire::FileInfo {
        path,
        kind: wire::FileKind::File.into(),
        size,
        mode: 0o644,
        checksum,
        ..wire::FileInfo::default()
    }
}

fn listing(random: &mut Random) -> wire::Listing {
    let count = random.pick(&[0, 1, 20, 500]);
    let entries = (0..count)
        .map(|_| file(random))
        .filter(|file| file.path.len() + 600 * file.metadata.len() < 5_000 || count == 1)
        .collect();
    wire::Listing { entries, last: random.one_in(2), truncated: random.one_in(2) }
}

fn events(random: &mut Random) -> wire::FileEvents {
    let count = random.pick(&[0, 1, 256, 300]);
    let events = (0..count).map(|_| wire::FileEvent { path: path(random), kind: small(random) });
    let events = events.filter(|event| event.path.len() < 2_000 || count == 1).collect();
    wire::FileEvents { events, synced: random.pick(&[0, 1, 2, u64::MAX]) }
}

/// A reply of any kind, most of it untrue.
pub(super) fn any_reply(random: &mut Random) -> Reply {
    let kind = random.below(12);
    reply_of(random, kind)
}

/// The number of a reply's kind.
fn kind(reply: &Reply) -> u64 {
    match reply {
        Reply::Error(_) => 0,
        Reply::Hello(_) => 1,
        Reply::Pong(_) => 2,
        Reply::Done(_) => 3,
        Reply::Started(_) => 4,
        Reply::Output(_) => 5,
        Reply::Result(_) => 6,
        Reply::File(_) => 7,
        Reply::Chunk(_) => 8,
        Reply::End(_) => 9,
        Reply::Listing(_) => 10,
        Reply::Events(_) => 11,
    }
}

fn reply_of(random: &mut Random, kind: u64) -> Reply {
    match kind {
        0 => Reply::Error(wire::Error { code: small(random), message: text(random) }),
        1 => Reply::Hello(super::opening::hello()),
        2 => Reply::Pong(wire::Pong { unix_nanos: size(random), boot_nanos: size(random) }),
        3 => Reply::Done(wire::Done {}),
        4 => Reply::Started(wire::Started {
            execution: size(random),
            pid: size(random) as u32,
            stdout_path: data(random),
            stderr_path: data(random),
        }),
        5 => Reply::Output(wire::Output { stream: small(random), data: data(random) }),
        6 => Reply::Result(result(random)),
        7 => Reply::File(file(random)),
        8 => Reply::Chunk(wire::Chunk { data: data(random) }),
        9 => Reply::End(wire::TransferEnd { size: size(random), checksum: random.number() }),
        10 => Reply::Listing(listing(random)),
        _ => Reply::Events(events(random)),
    }
}

/// What was uploaded: its size and its checksum.
pub(super) type Uploaded = (u64, u64);

/// The answer in good order.
pub(super) fn honest(op: &Op, (size, sum): Uploaded) -> Vec<Reply> {
    let done = || Reply::Done(wire::Done {});
    match op {
        Op::Ping(_) => vec![Reply::Pong(wire::Pong { unix_nanos: 1, boot_nanos: 1 })],
        Op::Execute(request) => {
            let started =
                Reply::Started(wire::Started { execution: 7, pid: 100, ..wire::Started::default() });
            let output = wire::Output { stream: wire::OutputStream::Stdout.into(), data: "ok\n".into() };
            let result = Reply::Result(honest_result());
            let announced = (!request.unannounced).then_some(started);
            let streamed = request.stream.then_some(Reply::Output(output));
            announced.into_iter().chain(streamed).chain([result]).collect()
        }
        Op::Upload(request) => vec![Reply::File(honest_file(request.path.clone(), size, sum))],
        Op::Download(request) => {
            let mut sum = Checksum::default();
            sum.update(CONTENT);
            let (size, checksum) = (CONTENT.len() as u64, sum.finish());
            vec![
                Reply::File(honest_file(request.path.clone(), size, 0)),
                Reply::Chunk(wire::Chunk { data: CONTENT.into() }),
                Reply::End(wire::TransferEnd { size, checksum }),
            ]
        }
        Op::Stat(wire::StatRequest { path, .. })
        | Op::Mkdir(wire::MkdirRequest { path, .. })
        | Op::Rename(wire::RenameRequest { to: path, .. }) => {
            vec![Reply::File(honest_file(path.clone(), 1, 0))]
        }
        Op::Watch(_) => {
            let event = wire::FileEvent { path: "one".into(), kind: 1 };
            vec![done(), Reply::Events(wire::FileEvents { events: vec![event], synced: 0 })]
        }
        Op::List(_) => {
            let entries = vec![honest_file("one".into(), 1, 0), honest_file("two".into(), 2, 0)];
            vec![Reply::Listing(wire::Listing { entries, last: true, truncated: false })]
        }
        _ => vec![done()],
    }
}

/// The same answer with something untrue in it, left out, said twice or said beside it.
pub(super) fn twist(random: &mut Random, mut replies: Vec<Reply>) -> Vec<Reply> {
    let at = random.below(replies.len() as u64) as usize;
    match random.below(6) {
        0 | 1 => replies[at] = reply_of(&mut random.fork(), kind(&replies[at])),
        2 => replies[at] = any_reply(random),
        3 => drop(replies.remove(at)),
        4 => replies.insert(at, replies[at].clone()),
        _ => replies.insert(at, any_reply(random)),
    }
    replies
}
