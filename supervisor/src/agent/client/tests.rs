//! Streams that the guest opens.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::fake::connected;

#[tokio::test]
async fn a_stream_of_the_guest_goes_to_whoever_takes_them_and_is_reset_while_nobody_does() {
    let (client, agent) = connected().await;
    let mut refused = agent.opener.open().await.expect("a stream");
    let _ = refused.write_all(b"early").await;
    let end = refused.read(&mut [0; 8]).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");

    let mut streams = client.take_streams();
    let mut stream = agent.opener.open().await.expect("a stream");
    stream.write_all(b"taken").await.expect("written");
    let mut taken = streams.recv().await.expect("a stream");
    let mut said = [0; 5];
    taken.read_exact(&mut said).await.expect("said");
    assert_eq!(&said, b"taken");

    // Whoever takes them later has them; the one before hears that it is over.
    let mut later = client.take_streams();
    assert!(streams.recv().await.is_none());
    drop(agent);
    drop(client);
    drop((stream, taken));
    assert!(later.recv().await.is_none(), "they end with the session");
}
