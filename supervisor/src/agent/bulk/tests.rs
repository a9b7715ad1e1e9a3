//! Who waits for whom, and for how long.

use rekindle_protocol::wire::{Pong, response::Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::fake::{Fake, SOON, connected, say};
use super::*;
use crate::agent::AgentClient;

/// A stream that a guest has opened, whose other end takes whatever it is sent.
async fn opened(client: &AgentClient, agent: &Fake) -> BulkStream {
    let mut streams = client.take_streams();
    let mut guests = agent.opener.open().await.expect("a stream");
    guests.write_all(b"?").await.expect("asked");
    let mut taken = streams.recv().await.expect("a stream");
    assert_eq!(taken.read_u8().await.expect("heard"), b'?');
    tokio::spawn(async move {
        let mut piece = vec![0; 64 * 1024];
        while guests.read(&mut piece).await.is_ok_and(|read| read > 0) {}
    });
    taken
}

/// How long a few bytes take to go.
async fn some(stream: &mut BulkStream) -> Duration {
    let before = Instant::now();
    stream.write_all(b"some").await.expect("written");
    before.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_transfer_waits_for_a_call_that_has_just_begun_and_no_longer_than_a_moment() {
    let (client, mut agent) = connected().await;
    let mut transfer = opened(&client, &agent).await;
    transfer.write_all(&vec![0; TRANSFER]).await.expect("written");
    assert_eq!(some(&mut transfer).await, Duration::ZERO, "nobody calls");

    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.ping(SOON).await }
    });
    let (_, mut asked) = agent.next().await;
    let mut exchange = opened(&client, &agent).await;
    assert_eq!(some(&mut exchange).await, Duration::ZERO, "a few bytes are no transfer");
    let waited = some(&mut transfer).await;
    assert!((MOMENT..2 * MOMENT).contains(&waited), "{waited:?}");
    assert_eq!(some(&mut transfer).await, Duration::ZERO, "the call is not short");
    say(&mut asked, Reply::Pong(Pong::default())).await;
    calling.await.expect("no panic").expect("answered");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_goes_on_as_soon_as_the_call_has_ended() {
    let (client, mut agent) = connected().await;
    let mut transfer = opened(&client, &agent).await;
    transfer.write_all(&vec![0; TRANSFER]).await.expect("written");
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.ping(SOON).await }
    });
    let (_, mut asked) = agent.next().await;
    let answering = async {
        tokio::time::sleep(MOMENT / 4).await;
        say(&mut asked, Reply::Pong(Pong::default())).await;
        calling.await.expect("no panic").expect("answered");
    };
    let (waited, ()) = tokio::join!(some(&mut transfer), answering);
    assert!((MOMENT / 4..MOMENT / 2).contains(&waited), "{waited:?}");
}
