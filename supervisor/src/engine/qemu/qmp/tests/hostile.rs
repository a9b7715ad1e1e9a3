//! A monitor that somebody has taken over speaks QMP: each command ends typed and in its time, in few words, and events
//! that nobody takes cost little.

use std::time::Duration;

use rekindle_test_support::random::{Random, times};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::super::wire::{Event, Incoming};
use super::super::{Qmp, QmpError};
use super::GREETING;

/// Conversations in `cargo test`; `REKINDLE_HOSTILE` asks for others.
const CONVERSATIONS: u64 = 300;
/// As the engine has it for a command.
const DEADLINE: Duration = Duration::from_secs(30);
/// No failure is told in more bytes.
const LONGEST_TEXT: usize = 4 * 1024;

async fn monitor(mut random: Random, mut stream: UnixStream) {
    if !random.one_in(8) && send(&mut stream, GREETING.as_bytes()).await.is_none() {
        return;
    }
    let mut buffer = [0; 4096];
    let mut id = 0;
    loop {
        if stream.read(&mut buffer).await.is_ok_and(|count| count == 0) {
            return;
        }
        id += 1;
        // The first command begins the conversation.
        let good = id == 1 && !random.one_in(5);
        let said = if good {
            send(&mut stream, reply(id).as_bytes()).await
        } else {
            answer(&mut random, id, &mut stream).await
        };
        if said.is_none() {
            return;
        }
    }
}

fn reply(id: u64) -> String {
    format!("{}\n", json!({ "return": {}, "id": id }))
}

/// What the seed has in the place of a reply; nothing when the channel is at its end.
async fn answer(random: &mut Random, id: u64, stream: &mut UnixStream) -> Option<()> {
    let text = random.pick(&["no", "\u{1b}[2J\u{202e}\r\n", "\0"]).repeat(random.pick(&[1, 100, 9_000]));
    let other = random.pick(&[json!(id + 1), json!(0), json!(-1), json!("x"), Value::Null, json!(u64::MAX)]);
    let event = |status: &str| format!("{}\n", json!({ "event": "MIGRATION", "data": { "status": status } }));
    match random.below(24) {
        0 => sleep(DEADLINE * 2).await,
        1 => return None,
        2 => send(stream, &[&random.bytes(300)[..], b"\n"].concat()).await?,
        3 => {
            send(
                stream,
                format!("{}\n", json!({ "error": { "class": text, "desc": text }, "id": id })).as_bytes(),
            )
            .await?;
        }
        4 => send(stream, format!("{}\n", json!({ "error": { "desc": text } })).as_bytes()).await?,
        5 => send(stream, format!("{}\n", json!({ "return": {}, "id": other })).as_bytes()).await?,
        6 => send(stream, reply(id).repeat(3).as_bytes()).await?,
        7 => loop {
            send(stream, &[b'x'; 10_000]).await?;
            sleep(Duration::from_millis(random.pick(&[0, 1, 5_000]))).await;
        },
        8 => loop {
            send(stream, event(&text).as_bytes()).await?;
            sleep(Duration::from_millis(random.pick(&[1, 100, 5_000]))).await;
        },
        9 => {
            let whole = reply(id);
            let cut = random.below(whole.len() as u64) as usize;
            send(stream, &whole.as_bytes()[..cut]).await?;
            random.one_in(2).then_some(())?;
        }
        10 => send(stream, format!("{}{}\n", "[".repeat(50_000), "]".repeat(50_000)).as_bytes()).await?,
        11 => {
            sleep(Duration::from_millis(random.below(40_000))).await;
            send(stream, reply(id).as_bytes()).await?;
        }
        12 => send(stream, GREETING.repeat(20).as_bytes()).await?,
        13 => {
            send(stream, format!("{{\"return\": \"{}\", \"id\": {id}}}\n", "r".repeat(200_000)).as_bytes())
                .await?;
        }
        14 => {
            let status = random.pick(&["completed", "failed", "cancelled", "active", "\u{1b}"]);
            send(stream, format!("{}{}", reply(id), event(status)).as_bytes()).await?;
        }
        15 => send(stream, format!("{}\n", json!({ "event": text, "data": [text] })).as_bytes()).await?,
        _ => send(stream, format!("{}{}", reply(id), event("completed")).as_bytes()).await?,
    }
    Some(())
}

async fn send(stream: &mut UnixStream, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()
}

/// A snapshot's worth of commands.
async fn commands(stream: UnixStream) -> Result<(), QmpError> {
    let client = Qmp::connect(stream).await?;
    client.execute("stop", Value::Null).await?;
    let completed = client.subscribe();
    client.execute("migrate", json!({ "uri": "fd:state" })).await?;
    client.migration_completed(completed).await
}

#[tokio::test(start_paused = true)]
async fn whatever_a_hostile_qemu_says_is_a_typed_end_in_few_words() {
    let (mut fine, mut failed, mut late) = (0, 0, 0);
    for seed in 0..times("REKINDLE_HOSTILE", CONVERSATIONS) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let monitor = tokio::spawn(monitor(Random::new(seed), theirs));
        match timeout(DEADLINE, commands(ours)).await {
            Ok(Ok(())) => fine += 1,
            Ok(Err(error)) => {
                failed += 1;
                let text = error.to_string();
                assert!(text.len() < LONGEST_TEXT, "seed {seed}: {} bytes", text.len());
                assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "seed {seed}: {text:?}");
            }
            Err(_) => late += 1,
        }
        monitor.abort();
    }
    println!("conversations with a hostile QEMU: {fine} fine, {failed} failed, {late} late");
    assert!([fine, failed, late].iter().all(|count| *count > 0), "all of them happen");
}

/// Everything that is kept of an event: a field that comes to it is counted here before this compiles again.
fn kept(event: &Event) -> usize {
    match event {
        Event::Named { name, status } => name.capacity() + status.as_ref().map_or(0, String::capacity),
        Event::Closed => 0,
    }
}

#[test]
fn events_that_nobody_takes_cost_little_however_long_they_are() {
    let long = "x".repeat(120_000);
    let lines = [
        json!({ "event": long, "data": { "status": long } }),
        json!({ "event": "MIGRATION", "data": { "status": long, "more": long } }),
        // Of this line every two bytes would become a value of thirty-two.
        json!({ "event": "E", "data": vec![0; 125_000] }),
    ];
    for line in lines {
        let Ok(Incoming::Event(event)) = Incoming::parse(line.to_string().as_bytes()) else {
            panic!("an event")
        };
        assert!(kept(&event) <= LONGEST_TEXT, "{} bytes wait", kept(&event));
    }
}
