//! A server that says what it hears.

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// One on loopback that says what it hears, however many connect, until the runtime ends.
///
/// # Panics
/// When there is no port.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = client.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}
