//! Connections as they come to a listener, as long as there is a place for one more.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::connection::{Connection, ConnectionLimits, Origin};
use super::places::Places;

/// How long to wait after a connection could not be taken, so that a host without descriptors does not spin.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What hands out connections.
pub(crate) trait Listens {
    type Io: Origin;

    fn take(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listens for UnixListener {
    type Io = UnixStream;

    async fn take(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listens for TcpListener {
    type Io = TcpStream;

    async fn take(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Small answers must not wait for more.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// The connections of a listener; on one that is `trusted` nobody needs a token.
pub(crate) fn incoming<L: Listens + Sync>(
    listener: &L,
    places: &Places,
    trusted: bool,
    limits: &Arc<ConnectionLimits>,
) -> impl Stream<Item = io::Result<Connection<L::Io>>> {
    unfold((), move |()| async move {
        loop {
            let place = places.free().await?;
            let io = match listener.take().await {
                Ok(io) => io,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            let peer = io.peer();
            match place.taken_by(&peer) {
                Some(place) => return Some((Ok(Connection::new(io, place, trusted, limits)), ())),
                // Dropped, which closes it.
                None => tracing::debug!(%peer, "too many connections from this address"),
            }
        }
    })
}
