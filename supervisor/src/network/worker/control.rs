//! The channel between the supervisor and the worker: a length and so many bytes of JSON, and a descriptor with those that
//! need one. In order: what was said before a connection was handed over holds for it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use bytes::{Buf as _, BytesMut};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes of a length.
const PREFIX: usize = 4;
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// One end of the channel.
pub(super) struct Control {
    socket: UnixStream,
    read: BytesMut,
    /// Descriptors that came, in order; nowhere to put them where none are taken.
    descriptors: Option<VecDeque<OwnedFd>>,
    /// Largest message that is taken from the other side.
    most: usize,
    /// A message was cut short, so that nothing can follow it.
    broken: bool,
}

impl Control {
    /// An end that takes messages of `most` bytes and no descriptors.
    pub(super) fn new(socket: UnixStream, most: usize) -> Self {
        Self { socket, read: BytesMut::new(), descriptors: None, most, broken: false }
    }

    /// The same, that takes descriptors too.
    pub(super) fn with_descriptors(self) -> Self {
        Self { descriptors: Some(VecDeque::new()), ..self }
    }

    /// Says something, with a descriptor if need be.
    pub(super) async fn send(
        &mut self,
        message: &impl Serialize,
        mut descriptor: Option<OwnedFd>,
    ) -> io::Result<()> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(io::Error::other("an earlier message was cut short"));
        }
        let text = serde_json::to_vec(message).map_err(io::Error::other)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?.to_be_bytes();
        let mut rest = [&length[..], &text].concat();
        while !rest.is_empty() {
            let sent = self
                .socket
                .async_io(Interest::WRITABLE, || {
                    let raw = descriptor.as_ref().map(|descriptor| [descriptor.as_raw_fd()]);
                    let control = raw.as_ref().map(|raw| ControlMessage::ScmRights(raw));
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    let socket = self.socket.as_raw_fd();
                    sendmsg::<()>(socket, &[IoSlice::new(&rest)], control.as_slice(), flags, None)
                        .map_err(io::Error::from)
                })
                .await?;
            descriptor = None;
            rest.drain(..sent);
        }
        self.broken = false;
        Ok(())
    }

    /// The next message. Can be abandoned. The other side's end is an error.
    pub(super) async fn receive<M: DeserializeOwned>(&mut self) -> io::Result<M> {
        loop {
            if let Some(length) = self.read.first_chunk::<PREFIX>() {
                let length = u32::from_be_bytes(*length) as usize;
                if length > self.most {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
                }
                if self.read.len() >= PREFIX + length {
                    self.read.advance(PREFIX);
                    return serde_json::from_slice(&self.read.split_to(length))
                        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a message of no kind"));
                }
            }
            if self.read_more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The descriptor that came with the last message.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.as_mut()?.pop_front()
    }

    async fn read_more(&mut self) -> io::Result<usize> {
        let mut piece = vec![0; PIECE];
        let (read, came) = self
            .socket
            .async_io(Interest::READABLE, || {
                // As many as the kernel hands over at once: one, since each was sent with a message of its own.
                let mut space = cmsg_space!([i32; 4]);
                let mut parts = [IoSliceMut::new(&mut piece)];
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
                let message = recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
                let mut came = Vec::new();
                for part in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(raw) = part {
                        // SAFETY: the kernel has just made these descriptors for us and nobody else knows their
                        // numbers.
                        // JUSTIFICATION: the safe interface hands over numbers.
                        came.extend(raw.into_iter().map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }));
                    }
                }
                Ok((message.bytes, came))
            })
            .await?;
        self.read.extend_from_slice(&piece[..read]);
        if let Some(descriptors) = &mut self.descriptors {
            descriptors.extend(came);
        }
        Ok(read)
    }
}
