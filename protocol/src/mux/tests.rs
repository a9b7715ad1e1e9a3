//! Streams are independent, and a session ends for everyone at once.

use super::*;
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
