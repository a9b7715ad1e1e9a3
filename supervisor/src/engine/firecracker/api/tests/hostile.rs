//! A monitor that somebody has taken over answers its control channel: each request ends typed and in its time, in few
//! words, and the supervisor holds nothing of what it was sent.

use std::time::Duration;

use rekindle_test_support::random::{Random, times};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use super::{Api, ApiError, PAUSED, listen};

/// Answers in `cargo test`; `REKINDLE_HOSTILE` asks for others.
const ANSWERS: u64 = 300;
/// As the engine has it for a command.
const DEADLINE: Duration = Duration::from_secs(30);
/// No failure is told in more bytes.
const LONGEST_TEXT: usize = 8 * 1024;

/// Answers every request with what the seed draws.
async fn monitor(mut random: Random, listener: UnixListener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        if random.one_in(10) {
            continue;
        }
        let mut buffer = [0; 4096];
        // Until it is closed, or the seed closes it.
        while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
            if answer(&mut random, &mut stream).await.is_none() {
                break;
            }
        }
    }
}

/// One answer; nothing when the connection is at its end.
async fn answer(random: &mut Random, stream: &mut UnixStream) -> Option<()> {
    let fault = |text: &str| serde_json::json!({ "fault_message": text }).to_string();
    let text = random.pick(&["no", "\u{1b}[2J\u{202e}\r\n", "\0"]).repeat(random.pick(&[1, 100, 9_000]));
    let status =
        random.pick(&["200 OK", "204 ", "100 Continue", "101 Other", "400 No", "500 Oh", "999 ?", "007 B"]);
    let whole = |body: &str| format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    match random.below(16) {
        0 => sleep(DEADLINE * 2).await,
        1 => return None,
        2 => send(stream, &random.bytes(3_000)).await?,
        3 => send(stream, whole(&fault(&text)).as_bytes()).await?,
        4 => send(stream, whole(&text).as_bytes()).await?,
        5 => {
            let length =
                random.pick(&["18446744073709551615", "99999999999999999999", "-1", "1073741824", "1e9"]);
            send(stream, format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\nhalf").as_bytes())
                .await?;
            random.one_in(2).then_some(())?;
        }
        6 => {
            send(stream, b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
            loop {
                send(stream, &[b"4000\r\n", &[b'x'; 0x4000][..], b"\r\n"].concat()).await?;
                sleep(Duration::from_millis(random.pick(&[0, 1, 5_000]))).await;
            }
        }
        7 => {
            send(stream, b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                send(stream, format!("X-{}: {}\r\n", random.number(), "y".repeat(1_000)).as_bytes()).await?;
                sleep(Duration::from_millis(random.pick(&[0, 1, 5_000]))).await;
            }
        }
        8 => loop {
            send(stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            sleep(Duration::from_millis(random.pick(&[0, 1, 5_000]))).await;
        },
        9 => {
            let whole = whole(&fault("cut"));
            let cut = random.below(whole.len() as u64) as usize;
            send(stream, &whole.as_bytes()[..cut]).await?;
            random.one_in(2).then_some(())?;
        }
        10 => {
            let whole = whole("{}");
            send(stream, whole.repeat(3).as_bytes()).await?;
        }
        11 => send(stream, whole(&"[".repeat(60_000)).as_bytes()).await?,
        12 => {
            sleep(Duration::from_millis(random.below(40_000))).await;
            send(stream, whole("{}").as_bytes()).await?;
        }
        13 => {
            for byte in whole("{}").bytes() {
                send(stream, &[byte]).await?;
                sleep(Duration::from_millis(random.pick(&[1, 900]))).await;
            }
        }
        14 => send(stream, whole(&"x".repeat(1 << 20)).as_bytes()).await?,
        _ => send(stream, b"HTTP/1.1 204 \r\n\r\n").await?,
    }
    Some(())
}

async fn send(stream: &mut UnixStream, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()
}

#[tokio::test(start_paused = true)]
async fn whatever_a_hostile_firecracker_answers_is_a_typed_end_in_few_words() {
    let (mut fine, mut refused, mut broken, mut late) = (0, 0, 0, 0);
    for seed in 0..times("REKINDLE_HOSTILE", ANSWERS) {
        let (_dir, path, listener) = listen();
        let monitor = tokio::spawn(monitor(Random::new(seed), listener));
        let api = Api::connect(path).await.expect("somebody listens");
        for _ in 0..3 {
            match timeout(DEADLINE, api.patch("/vm", &PAUSED)).await {
                Ok(Ok(())) => fine += 1,
                Ok(Err(error)) => {
                    let text = error.to_string();
                    assert!(text.len() < LONGEST_TEXT, "seed {seed}: {} bytes", text.len());
                    assert!(
                        !text.contains(|c: char| c.is_control() || c == '\u{202e}'),
                        "seed {seed}: {text:?}"
                    );
                    match error {
                        ApiError::Refused { .. } => refused += 1,
                        ApiError::Connect { .. } | ApiError::Channel { .. } => broken += 1,
                    }
                }
                Err(_) => late += 1,
            }
        }
        drop(api);
        monitor.abort();
    }
    println!(
        "answers of a hostile Firecracker: {fine} fine, {refused} refused, {broken} broken, {late} late"
    );
    assert!([fine, refused, broken, late].iter().all(|count| *count > 0), "all of them happen");
}
