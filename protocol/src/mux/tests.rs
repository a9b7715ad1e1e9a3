//! Streams are independent, and a session ends for everyone at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::*;
use crate::limits::{MAX_QUEUED_BYTES, MAX_UNREAD_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn many_streams_carry_their_own_bytes_at_once() {
    let (host, guest) = tokio::io::duplex(4096);
    let (opener, _, driver) = session(host, Side::Host);
    tokio::spawn(driver);
    let (_keep, mut incoming, driver) = session(guest, Side::Guest);
    tokio::spawn(driver);
    tokio::spawn(async move {
        while let Some(mut stream) = incoming.next().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 100_000];
                stream.read_exact(&mut bytes).await.expect("all arrives");
                stream.write_all(&bytes).await.expect("all goes back");
                stream.shutdown().await.expect("closed");
            });
        }
    });
    let echoes: Vec<_> = (0..200u8)
        .map(|i| {
            let opener = opener.clone();
            tokio::spawn(async move {
                let mut stream = opener.open().await.expect("a stream");
                stream.write_all(&vec![i; 100_000]).await.expect("sent");
                let mut back = Vec::new();
                stream.read_to_end(&mut back).await.expect("received");
                assert_eq!(back, vec![i; 100_000]);
            })
        })
        .collect();
    for echo in echoes {
        echo.await.expect("its own bytes came back");
    }
}

#[tokio::test]
async fn garbage_ends_the_session_with_an_error_and_opening_fails() {
    let (host, mut guest) = tokio::io::duplex(4096);
    let (opener, _, driver) = session(host, Side::Host);
    let running = tokio::spawn(driver.run());
    guest.write_all(&[0xff; 64]).await.expect("sent");
    assert!(running.await.expect("no panic").is_err());
    assert!(opener.open().await.is_err());
}

#[tokio::test]
async fn dropping_the_opener_closes_the_session_on_both_sides() {
    let (host, guest) = tokio::io::duplex(4096);
    let (opener, _, driver) = session(host, Side::Host);
    let host = tokio::spawn(driver.run());
    let (_keep, mut incoming, driver) = session(guest, Side::Guest);
    tokio::spawn(driver);
    drop(opener);
    host.await.expect("no panic").expect("a clean end");
    assert!(incoming.next().await.is_none());
}

/// The head of a frame of data.
fn data(stream: u32, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).expect("short");
    [&[0, 0, 0, 2][..], &stream.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// Sends bodies of this length to a host that does not read them, on as many streams as that takes; the bytes it took.
async fn unread(length: usize) -> usize {
    const STREAMS: usize = 2;
    let (host, guest) = tokio::io::duplex(4096);
    let (opener, _, driver) = session(host, Side::Host);
    let running = tokio::spawn(driver.run());
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = opener.open().await.expect("a stream");
        stream.write_all(b"a request").await.expect("sent");
        streams.push(stream);
    }
    let (mut reader, mut writer) = tokio::io::split(guest);
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
    });
    let mut taken = 0;
    for stream in 0..STREAMS {
        let frame = [data(2 * stream as u32 + 1, length), vec![b'x'; length]].concat();
        for _ in 0..(256 * 1024) / length {
            if writer.write_all(&frame).await.is_err() {
                assert!(running.await.expect("no panic").is_err());
                return taken;
            }
            taken += length;
        }
    }
    taken
}

#[tokio::test]
async fn a_guest_that_sends_byte_for_byte_is_cut_off_and_one_that_sends_short_replies_is_not() {
    assert!(unread(1).await < 32 * 1024, "each byte would take the memory of many");
    assert_eq!(unread(6).await, 2 * (256 * 1024 / 6) * 6, "the shortest reply there is");
}

/// The head of a frame that opens a stream, with a wide window for what it is sent.
fn open(stream: u32) -> Vec<u8> {
    [&[0, 1, 0, 1][..], &stream.to_be_bytes(), &(1u32 << 30).to_be_bytes()].concat()
}

/// A host whose guest opens so many streams, and the guest's end.
async fn opened(
    count: usize,
) -> (Vec<Stream>, Opener, tokio::task::JoinHandle<io::Result<()>>, tokio::io::DuplexStream) {
    let (host, mut guest) = tokio::io::duplex(64 * 1024);
    let (opener, mut incoming, driver) = session(host, Side::Host);
    let running = tokio::spawn(driver.run());
    let mut streams = Vec::new();
    for number in 1..=count as u32 {
        guest.write_all(&open(2 * number)).await.expect("opened");
        streams.push(incoming.next().await.expect("a stream"));
    }
    (streams, opener, running, guest)
}

#[tokio::test]
async fn a_guest_that_fills_streams_nobody_reads_is_cut_off_and_one_that_is_heard_is_not() {
    const BODY: usize = 32 * 1024;
    const WINDOW: usize = 256 * 1024;
    let count = 2 * MAX_UNREAD_BYTES / WINDOW;
    // Whether somebody still has the streams or not: while the guest does not listen, it is not told that nobody does,
    // and the multiplexer keeps them.
    for (kept, listens) in [(true, true), (false, true), (false, false)] {
        let (mut streams, _opener, running, mut guest) = opened(count + 1).await;
        let mut last = streams.pop().expect("a stream");
        let stuck =
            tokio::spawn(
                async move { while !listens && last.write_all(&[b'x'; 64 * 1024]).await.is_ok() {} },
            );
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        streams.truncate(if kept { count } else { 0 });
        let mut taken = 0;
        'saying: for number in 1..=count as u32 {
            let said = [data(2 * number, BODY), vec![b'x'; BODY]].concat();
            for _ in 0..WINDOW / BODY {
                if guest.write_all(&said).await.is_err() {
                    break 'saying;
                }
                taken += BODY;
            }
        }
        if kept || !listens {
            assert!(taken <= MAX_UNREAD_BYTES + 128 * 1024, "{taken} bytes were taken");
            let ended = running.await.expect("no panic").expect_err("too much");
            assert!(ended.to_string().contains("on its connections"), "{ended}");
        } else {
            assert_eq!(taken, count * WINDOW, "nothing of it is kept");
        }
        stuck.abort();
    }
    // More than there is room for, to one who reads.
    let (mut streams, _opener, running, mut guest) = opened(1).await;
    let mut stream = streams.remove(0);
    let said = [data(2, BODY), vec![b'x'; BODY]].concat();
    let mut heard = vec![0; BODY];
    for _ in 0..2 * MAX_UNREAD_BYTES / BODY {
        guest.write_all(&said).await.expect("it is taken");
        stream.read_exact(&mut heard).await.expect("it is heard");
        // New windows are told, and have to be taken.
        while let Ok(Ok(_)) = tokio::time::timeout(Duration::ZERO, guest.read(&mut [0; 4096])).await {}
    }
    assert!(!running.is_finished());
}

#[tokio::test]
async fn a_guest_that_takes_nothing_of_many_streams_leaves_little_waiting_and_gets_all_once_it_does() {
    const STREAMS: usize = 64;
    const EACH: usize = 512 * 1024;
    let (streams, _opener, _running, mut guest) = opened(STREAMS).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            let taken = taken.clone();
            tokio::spawn(async move {
                let piece = [b'x'; 16 * 1024];
                for _ in 0..EACH / piece.len() {
                    stream.write_all(&piece).await.expect("taken");
                    taken.fetch_add(piece.len(), Relaxed);
                }
                stream.shutdown().await.expect("ended");
                stream
            })
        })
        .collect();
    // Until nothing moves: everybody has had several turns.
    let mut before = usize::MAX;
    while before != taken.load(Relaxed) {
        before = taken.load(Relaxed);
        for _ in 0..10 * STREAMS {
            tokio::task::yield_now().await;
        }
    }
    let bound = MAX_QUEUED_BYTES + 4 * MAX_BODY_BYTES + 128 * 1024;
    assert!((MAX_QUEUED_BYTES..bound).contains(&before), "{before} bytes wait");
    let (mut heard, mut piece) = (0, vec![0; 64 * 1024]);
    let all = STREAMS * (EACH + EACH / (16 * 1024) * 12 + 12);
    while heard < all {
        heard += guest.read(&mut piece).await.expect("heard");
    }
    for writer in writers {
        drop(writer.await.expect("all is sent"));
    }
}
