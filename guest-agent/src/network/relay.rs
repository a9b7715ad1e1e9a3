//! Moves the bytes of one TCP connection between a socket in the guest and a stream to the host, whoever began it.

use std::io;
use std::os::fd::AsFd as _;

use nix::sys::socket::sockopt;
use rekindle_protocol::mux::{RawStream, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::net::TcpStream;

/// Bytes that are moved at once: as many as fit one frame of the channel. An answer to an execution may have to wait for
/// so many of each connection.
const PIECE: usize = 64 * 1024;

/// Moves bytes to the end of both directions. What the host says first is for `opening`: with a word of its own there
/// is no connection, and that is returned.
pub(super) async fn relay<T>(
    socket: &mut TcpStream,
    stream: Stream,
    opening: impl AsyncFnOnce(&mut ReadHalf<RawStream>) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    let (mut from_host, mut to_host) = tokio::io::split(RawStream::new(stream));
    let (mut from_socket, mut to_socket) = socket.split();
    let up = async {
        copy(&mut from_socket, &mut to_host).await?;
        to_host.shutdown().await
    };
    let down = async {
        if let Some(word) = opening(&mut from_host).await.map_err(Broken::Reading)? {
            return Ok(Some(word));
        }
        copy(&mut from_host, &mut to_socket).await?;
        to_socket.shutdown().await.map_err(Broken::Writing)?;
        Ok::<_, Broken>(None)
    };
    tokio::pin!(up, down);
    // The program may have said all it has to say; what the host says is waited for in any case.
    let mut said_all = false;
    let told = loop {
        tokio::select! {
            end = &mut down => match end {
                Ok(told) => break told,
                // A program that takes no more may have said why: what it has said still goes to the host.
                Err(Broken::Writing(error)) if !said_all => {
                    up.await?;
                    return Err(error);
                }
                Err(broken) => return Err(broken.into()),
            },
            end = &mut up, if !said_all => {
                end?;
                said_all = true;
            }
        }
    };
    // The host has ended its half; the program ends its own.
    if told.is_none() && !said_all {
        up.await?;
    }
    Ok(told)
}

/// Ends a connection so that the program sees a reset, not an end.
pub(super) fn reset(socket: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&socket.as_fd(), sockopt::Linger, &linger)?;
    Ok(())
}

/// Which side of a direction failed.
enum Broken {
    Reading(io::Error),
    Writing(io::Error),
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Reading(error) | Broken::Writing(error) => error,
        }
    }
}

async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Broken> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).await.map_err(Broken::Reading)? {
            0 => return Ok(()),
            read => {
                to.write_all(&piece[..read]).await.map_err(Broken::Writing)?;
                to.flush().await.map_err(Broken::Writing)?;
            }
        }
    }
}
