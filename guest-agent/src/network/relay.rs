//! Moves the bytes of one TCP connection between a socket in the guest and a stream to the host, whoever began it.

use std::io;
use std::os::fd::AsFd as _;

use nix::sys::socket::sockopt;
use rekindle_protocol::mux::{RawReader, RawStream, RawWriter, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// Bytes that are moved out at once: as many as fit one frame of the channel. An answer to an execution may have to wait
/// for so many of each connection.
const PIECE: usize = 64 * 1024;

/// Moves bytes to the end of both directions. What the host says first is for `opening`: with a word of its own there
/// is no connection, and that is returned.
pub(super) async fn relay<T>(
    socket: &mut TcpStream,
    stream: Stream,
    opening: impl AsyncFnOnce(&mut RawReader) -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    let (mut from_host, mut to_host) = RawStream::new(stream).halves();
    let (mut from_socket, mut to_socket) = socket.split();
    let up = async {
        out(&mut from_socket, &mut to_host).await?;
        to_host.shutdown().await
    };
    let down = async {
        if let Some(word) = opening(&mut from_host).await.map_err(Broken::Reading)? {
            return Ok(Some(word));
        }
        bring_in(&mut from_host, &mut to_socket).await?;
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

/// Moves what the host says, in the pieces in which it comes.
async fn bring_in(from: &mut RawReader, to: &mut WriteHalf<'_>) -> Result<(), Broken> {
    while let Some(piece) = from.piece().await.map_err(Broken::Reading)? {
        to.write_all(piece.as_ref()).await.map_err(Broken::Writing)?;
    }
    Ok(())
}

/// Moves what the program says.
async fn out(from: &mut ReadHalf<'_>, to: &mut RawWriter) -> Result<(), Broken> {
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
