//! Peers that do not behave, on a pipe in memory and a clock that does not wait.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::super::places::Places;
use super::*;

impl Origin for DuplexStream {
    fn peer(&self) -> Peer {
        Peer::Tcp { address: None }
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        greeting: SECOND,
        stranger: 10 * SECOND,
        stranger_bytes: 1000,
        idle: 100 * SECOND,
        write_stall: 100 * SECOND,
        ..ConnectionLimits::default()
    }
}

/// A connection and its peer, which has greeted.
async fn greeted(limits: ConnectionLimits, trusted: bool) -> (Connection<DuplexStream>, DuplexStream) {
    let (mut peer, io) = duplex(256);
    let place = Places::new(1, 1).free().await.expect("a place");
    let place = place.taken_by(&io.peer()).expect("taken");
    let mut connection = Connection::new(io, place, trusted, &Arc::new(limits));
    peer.write_all(&[0; PREFACE]).await.expect("sent");
    connection.read_exact(&mut [0; PREFACE]).await.expect("received");
    (connection, peer)
}

/// Writes until it fails, which it does long before this gives up.
async fn write_on(connection: &mut Connection<DuplexStream>) -> io::Error {
    let writing = async {
        loop {
            if let Err(error) = connection.write_all(&[0; 64]).await {
                return error;
            }
        }
    };
    tokio::time::timeout(10_000 * SECOND, writing).await.expect("it is given up")
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_never_reads_is_gone_in_a_strangers_time() {
    let (mut connection, _peer) = greeted(limits(), false).await;
    let began = Instant::now();
    assert_eq!(write_on(&mut connection).await.to_string(), "no admitted call in time");
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_never_stops_talking_is_gone_in_a_strangers_time() {
    let (mut connection, mut peer) =
        greeted(ConnectionLimits { stranger_bytes: usize::MAX, ..limits() }, false).await;
    // Longer than a stranger has, and there is always something more to read.
    peer.write_all(&[0; 200]).await.expect("sent");
    tokio::time::advance(11 * SECOND).await;
    let error = connection.read_u8().await.expect_err("too late");
    assert_eq!(error.to_string(), "no admitted call in time");
}

#[tokio::test(start_paused = true)]
async fn an_admitted_peer_has_all_the_time_unless_it_stops_reading() {
    let (mut connection, mut peer) = greeted(limits(), false).await;
    connection.info().admit();
    tokio::time::advance(1000 * SECOND).await;
    // It reads, slowly.
    for _ in 0..20 {
        connection.write_all(&[0; 128]).await.expect("written");
        tokio::time::advance(99 * SECOND).await;
        peer.read_exact(&mut [0; 128]).await.expect("read");
    }
    let began = Instant::now();
    assert_eq!(write_on(&mut connection).await.to_string(), "the peer does not read");
    assert_eq!(began.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_read_so_far_and_the_rest_once_it_is_admitted() {
    let (mut connection, mut peer) = greeted(limits(), false).await;
    let info = connection.info();
    let sending = tokio::spawn(async move { peer.write_all(&[7; 5000]).await.map(|()| peer) });
    let mut received = 0;
    let mut piece = [0; 100];
    let stopped = loop {
        match tokio::time::timeout(SECOND, connection.read(&mut piece)).await {
            Ok(read) => received += read.expect("read"),
            Err(_) => break received,
        }
    };
    assert!((900..1100).contains(&stopped), "{stopped}");
    // Whoever waits to read is woken.
    let reading = tokio::spawn(async move { connection.read_exact(&mut [0; 3000]).await.map(drop) });
    tokio::task::yield_now().await;
    info.admit();
    tokio::time::timeout(SECOND, reading).await.expect("in time").expect("no panic").expect("read");
    drop(sending);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_greet_is_given_up_trusted_or_not() {
    for trusted in [false, true] {
        let (_peer, io) = duplex(64);
        let place = Places::new(1, 1).free().await.expect("a place").taken_by(&io.peer()).expect("taken");
        let mut connection = Connection::new(io, place, trusted, &Arc::new(limits()));
        let error = connection.read_u8().await.expect_err("too late");
        assert_eq!(error.to_string(), "no greeting in time");
    }
    let (mut connection, mut peer) = greeted(limits(), true).await;
    tokio::time::advance(1000 * SECOND).await;
    peer.write_u8(9).await.expect("sent");
    assert_eq!(connection.read_u8().await.expect("it is no stranger"), 9);
}
