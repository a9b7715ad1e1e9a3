//! Reads the TLS ClientHello that a connection opens with, and the one server it names. Pure: bytes in, name out.
//!
//! The bytes come as the client sent them, in pieces of any size, and are kept, because the server gets them unchanged.
//! `rustls` says whether they are a ClientHello and whom it names. A second look at the very same bytes is stricter than
//! any server has to be: exactly one server name, nothing beside it, no Encrypted Client Hello. Both must agree, so that
//! no server can read another name out of them.

use tokio_rustls::rustls::server::Acceptor;

use super::name::HostName;

/// Most bytes that are read for a ClientHello. The largest ones, with post-quantum keys, have about 2 KiB.
pub const MAX_BYTES: usize = 16 * 1024;

const RECORD_HEADER: usize = 5;
const HANDSHAKE_HEADER: usize = 4;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Encrypted Client Hello, and the draft of it that named the extension otherwise.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// Why there is no server to be held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It is not TLS.
    #[error("it is no ClientHello")]
    NotTls,
    /// It goes on and on.
    #[error("the ClientHello is longer than {MAX_BYTES} bytes")]
    TooLarge,
    /// It names no server, an address, or more than one.
    #[error("the ClientHello does not name exactly one server")]
    NoServerName,
    /// It may mean another server than it names.
    #[error("the ClientHello is encrypted")]
    Encrypted,
}

/// A ClientHello that names one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// The server it names.
    pub server_name: HostName,
}

/// Takes the first bytes of a connection until they are a ClientHello.
#[derive(Default)]
pub struct ClientHelloReader {
    acceptor: Acceptor,
    bytes: Vec<u8>,
}

impl ClientHelloReader {
    /// Takes a piece; `None` while more is needed. Not to be called again after anything else.
    ///
    /// # Errors
    /// When it will never be a ClientHello that names one server.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<ClientHello>, HelloError> {
        if self.bytes.len() + piece.len() > MAX_BYTES {
            return Err(HelloError::TooLarge);
        }
        self.bytes.extend_from_slice(piece);
        // Refused here, as `rustls` takes the header of a record before it looks at its kind.
        if self.bytes.first().is_some_and(|kind| *kind != HANDSHAKE) {
            return Err(HelloError::NotTls);
        }
        let mut rest = piece;
        while !rest.is_empty() {
            self.acceptor.read_tls(&mut rest).map_err(|_| HelloError::NotTls)?;
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let strict = server_name(&self.bytes)?;
                    let named = accepted.client_hello().server_name().map(HostName::parse);
                    let Some(Ok(server_name)) = named else { return Err(HelloError::NoServerName) };
                    if server_name != strict {
                        return Err(HelloError::NoServerName);
                    }
                    return Ok(Some(ClientHello { server_name }));
                }
                Err(_) => return Err(HelloError::of_refused(&self.bytes)),
            }
        }
        Ok(None)
    }

    /// Everything taken so far, for the server.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Everything taken so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl HelloError {
    /// Why `rustls` refused: for its names, or because it is no ClientHello at all.
    fn of_refused(bytes: &[u8]) -> Self {
        match server_name(bytes) {
            Err(error) => error,
            Ok(_) => Self::NotTls,
        }
    }
}

/// The one server that a whole ClientHello names, or why there is not one.
fn server_name(records: &[u8]) -> Result<HostName, HelloError> {
    let message = handshake_message(records).ok_or(HelloError::NotTls)?;
    let extensions = extensions(&message).ok_or(HelloError::NotTls)?;
    if extensions.iter().any(|(kind, _)| ENCRYPTED.contains(kind)) {
        return Err(HelloError::Encrypted);
    }
    let mut named = extensions.iter().filter(|(kind, _)| *kind == SERVER_NAME);
    let (Some((_, extension)), None) = (named.next(), named.next()) else {
        return Err(HelloError::NoServerName);
    };
    let name = only_host_name(extension).ok_or(HelloError::NoServerName)?;
    let name = std::str::from_utf8(name).map_err(|_| HelloError::NoServerName)?;
    HostName::parse(name).map_err(|_| HelloError::NoServerName)
}

/// The first handshake message, put together from its records, when it is a whole ClientHello.
fn handshake_message(records: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut rest = records;
    while message.len() < HANDSHAKE_HEADER || message.len() < message_length(&message)? {
        let ([HANDSHAKE, 3, _, high, low], tail) = rest.split_first_chunk::<RECORD_HEADER>()? else {
            return None;
        };
        let fragment = tail.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
        message.extend_from_slice(fragment);
        rest = &tail[fragment.len()..];
    }
    message.truncate(message_length(&message)?);
    Some(message)
}

fn message_length(message: &[u8]) -> Option<usize> {
    let [CLIENT_HELLO, high, middle, low] = message.first_chunk::<HANDSHAKE_HEADER>()? else { return None };
    Some(HANDSHAKE_HEADER + u32::from_be_bytes([0, *high, *middle, *low]) as usize)
}

/// The extensions of a ClientHello, each with its kind. `None` when a length does not fit.
fn extensions(message: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    // Version and random.
    let mut rest = message.get(HANDSHAKE_HEADER + 2 + 32..)?;
    let _session = take_8(&mut rest)?;
    let _ciphers = take_16(&mut rest)?;
    let _compression = take_8(&mut rest)?;
    let mut list = take_16(&mut rest)?;
    if !rest.is_empty() {
        return None;
    }
    let mut extensions = Vec::new();
    while let Some((kind, mut tail)) = list.split_first_chunk::<2>() {
        extensions.push((u16::from_be_bytes(*kind), take_16(&mut tail)?));
        list = tail;
    }
    list.is_empty().then_some(extensions)
}

/// The host name in a server name extension that has nothing beside it.
fn only_host_name(mut extension: &[u8]) -> Option<&[u8]> {
    let mut list = take_16(&mut extension)?;
    if !extension.is_empty() {
        return None;
    }
    let (kind, tail) = list.split_first()?;
    if *kind != HOST_NAME {
        return None;
    }
    list = tail;
    let name = take_16(&mut list)?;
    list.is_empty().then_some(name)
}

/// Takes what has its length in one byte before it.
fn take_8<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first()?;
    take(tail, usize::from(*length), rest)
}

/// Takes what has its length in two bytes before it.
fn take_16<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, tail) = rest.split_first_chunk::<2>()?;
    take(tail, usize::from(u16::from_be_bytes(*length)), rest)
}

fn take<'a>(tail: &'a [u8], length: usize, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (taken, after) = tail.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests;
