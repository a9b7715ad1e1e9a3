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
