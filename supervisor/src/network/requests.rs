//! Holds every HTTP/1 request of a connection to the host that was allowed. Pure: bytes in, bytes that may go on out.
//!
//! A head is kept back until it is whole and checked, then goes on as it is, and so does its body. Nothing is rewritten:
//! what could be read in two ways is refused instead, so that the server sees the requests that were seen here, on a
//! connection that is kept alive as well. Responses are not looked at.
//!
//! ```text
//!   head ──no body──► head
//!    │ content-length ──► body ──► head
//!    └ chunked ──► size ──► data ──► end of data ──► size        0 ──► last line ──► head
//! ```

use super::denial::DenialReason;
use super::name::HostName;

/// Most bytes of a head.
pub const MAX_HEAD: usize = 64 * 1024;
/// Most fields of a head.
const MAX_FIELDS: usize = 100;
/// Most digits of a chunk's size.
const MAX_SIZE_DIGITS: usize = 15;

/// Why a request does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is not HTTP/1 as it is written.
    #[error("it is no request of HTTP/1")]
    NotHttp,
    /// The head has no end.
    #[error("the head is longer than {MAX_HEAD} bytes or has more than {MAX_FIELDS} fields")]
    TooLarge,
    /// It names another host, none, or several.
    #[error("it names another host")]
    Host,
    /// CONNECT, or an upgrade to another protocol.
    #[error("it asks for a tunnel or another protocol")]
    Tunnel,
    /// The length of its body can be read in two ways.
    #[error("its length can be read in two ways")]
    Length,
    /// One too many.
    #[error("the budget of requests is spent")]
    Spent,
}

impl From<RequestError> for DenialReason {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotHttp => Self::NotHttp,
            RequestError::TooLarge => Self::TooLarge,
            RequestError::Host => Self::HostMismatch,
            RequestError::Tunnel => Self::Tunnel,
            RequestError::Length => Self::AmbiguousLength,
            RequestError::Spent => Self::BudgetSpent,
        }
    }
}

/// The requests of one connection.
#[derive(Debug)]
pub struct Requests {
    host: HostName,
    port: u16,
    state: State,
    /// What has come of a head.
    head: Vec<u8>,
    passed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes of a body are left.
    Body(u64),
    /// The line with a chunk's size: what it says so far, and of how many digits.
    Size(u64, usize),
    /// The line feed after a size.
    SizeEnd(u64),
    /// So many bytes of a chunk are left.
    Data(u64),
    /// What ends a chunk: so much of CR LF is left.
    DataEnd(&'static [u8]),
    /// What ends the last chunk. No trailer is let through.
    Last(&'static [u8]),
    /// Something was refused: nothing goes on any more.
    Refused(RequestError),
}

impl Requests {
    /// Requests to this host on this port.
    #[must_use]
    pub fn new(host: HostName, port: u16) -> Self {
        Self { host, port, state: State::Head, head: Vec::new(), passed: 0 }
    }

    /// How many requests were let through.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Why nothing goes on any more, once something was refused.
    #[must_use]
    pub fn refused(&self) -> Option<RequestError> {
        match self.state {
            State::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Takes a piece and appends to `onward` what may go to the server. `may` is asked for each request that is fine
    /// otherwise.
    ///
    /// # Errors
    /// When a request is refused. What came before it is in `onward`; nothing after it ever is.
    pub fn push(
        &mut self,
        piece: &[u8],
        onward: &mut Vec<u8>,
        may: &dyn Fn() -> bool,
    ) -> Result<(), RequestError> {
        let mut rest = piece;
        while !rest.is_empty() {
            match self.step(&mut rest, onward, may) {
                Ok(next) => self.state = next,
                Err(error) => {
                    self.state = State::Refused(error);
                    self.head = Vec::new();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        rest: &mut &[u8],
        onward: &mut Vec<u8>,
        may: &dyn Fn() -> bool,
    ) -> Result<State, RequestError> {
        match self.state {
            State::Refused(error) => Err(error),
            State::Head => self.take_head(rest, onward, may),
            State::Body(left) => {
                let left = pass(rest, left, onward);
                Ok(if left == 0 { State::Head } else { State::Body(left) })
            }
            State::Data(left) => {
                let left = pass(rest, left, onward);
                Ok(if left == 0 { State::DataEnd(b"\r\n") } else { State::Data(left) })
            }
            State::Size(size, digits) => match (take_byte(rest, onward), digits) {
                (b'\r', 1..) => Ok(State::SizeEnd(size)),
                (byte, 0..MAX_SIZE_DIGITS) => {
                    let digit = char::from(byte).to_digit(16).ok_or(RequestError::Length)?;
                    Ok(State::Size(size << 4 | u64::from(digit), digits + 1))
                }
                _ => Err(RequestError::Length),
            },
            State::SizeEnd(size) => match (take_byte(rest, onward), size) {
                (b'\n', 0) => Ok(State::Last(b"\r\n")),
                (b'\n', size) => Ok(State::Data(size)),
                _ => Err(RequestError::Length),
            },
            State::DataEnd(expected) => Ok(match expect(rest, expected, onward)? {
                [] => State::Size(0, 0),
                left => State::DataEnd(left),
            }),
            State::Last(expected) => Ok(match expect(rest, expected, onward)? {
                [] => State::Head,
                left => State::Last(left),
            }),
        }
    }

    fn take_head(
        &mut self,
        rest: &mut &[u8],
        onward: &mut Vec<u8>,
        may: &dyn Fn() -> bool,
    ) -> Result<State, RequestError> {
        while let Some((byte, tail)) = rest.split_first() {
            *rest = tail;
            // A line ends with both, or two readers may see different lines.
            let after_return = self.head.last() == Some(&b'\r');
            if (*byte == b'\n') != after_return || (self.head.is_empty() && !byte.is_ascii_uppercase()) {
                return Err(RequestError::NotHttp);
            }
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") {
                let next = self.check_head()?;
                if !may() {
                    return Err(RequestError::Spent);
                }
                onward.append(&mut self.head);
                self.passed += 1;
                return Ok(next);
            }
            if self.head.len() >= MAX_HEAD {
                return Err(RequestError::TooLarge);
            }
        }
        Ok(State::Head)
    }

    /// Holds a whole head to the rules; what follows it.
    fn check_head(&self) -> Result<State, RequestError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&self.head) {
            Ok(httparse::Status::Complete(length)) if length == self.head.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooLarge),
            _ => return Err(RequestError::NotHttp),
        }
        let method = request.method.unwrap_or_default();
        if method == "CONNECT" {
            return Err(RequestError::Tunnel);
        }
        match request.path.unwrap_or_default() {
            "*" if method == "OPTIONS" => {}
            path if path.starts_with('/') => {}
            // An absolute target names a host of its own.
            _ => return Err(RequestError::Host),
        }
        let is_1_1 = request.version == Some(1);
        let fields = &*request.headers;
        if named(fields, "upgrade").next().is_some() || named(fields, "http2-settings").next().is_some() {
            return Err(RequestError::Tunnel);
        }
        let host = only(fields, "host").map_err(|()| RequestError::Host)?.ok_or(RequestError::Host)?;
        if !self.is_host(host) {
            return Err(RequestError::Host);
        }
        let length = only(fields, "content-length").map_err(|()| RequestError::Length)?;
        let coding = only(fields, "transfer-encoding").map_err(|()| RequestError::Length)?;
        match (length, coding) {
            (None, None) => Ok(State::Head),
            (Some(length), None) => match decimal(length).ok_or(RequestError::Length)? {
                0 => Ok(State::Head),
                length => Ok(State::Body(length)),
            },
            (None, Some(coding)) if is_1_1 && coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(State::Size(0, 0))
            }
            (_, Some(_)) => Err(RequestError::Length),
        }
    }

    /// Whether the value of a Host field means the host that was allowed.
    fn is_host(&self, value: &[u8]) -> bool {
        let Ok(value) = std::str::from_utf8(value) else { return false };
        let (name, port) = match value.split_once(':') {
            None => (value, None),
            Some((name, port)) => (name, Some(port)),
        };
        let same_port =
            port.is_none_or(|port| decimal(port.as_bytes()).is_some_and(|port| port == u64::from(self.port)));
        same_port && HostName::parse(name).is_ok_and(|name| name == self.host)
    }
}

/// Passes on at most so many bytes; how many are left then.
fn pass(rest: &mut &[u8], left: u64, onward: &mut Vec<u8>) -> u64 {
    let now = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
    let (body, tail) = rest.split_at(now);
    onward.extend_from_slice(body);
    *rest = tail;
    left - now as u64
}

/// Passes on one byte, of which there is at least one.
fn take_byte(rest: &mut &[u8], onward: &mut Vec<u8>) -> u8 {
    let Some((byte, tail)) = rest.split_first() else { return 0 };
    *rest = tail;
    onward.push(*byte);
    *byte
}

fn expect(
    rest: &mut &[u8],
    expected: &'static [u8],
    onward: &mut Vec<u8>,
) -> Result<&'static [u8], RequestError> {
    match expected.split_first() {
        Some((byte, left)) if take_byte(rest, onward) == *byte => Ok(left),
        _ => Err(RequestError::Length),
    }
}

fn named<'a>(
    fields: &'a [httparse::Header<'a>],
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// The value of a field that may be there once.
fn only<'a>(fields: &'a [httparse::Header<'a>], name: &'static str) -> Result<Option<&'a [u8]>, ()> {
    let mut values = named(fields, name);
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(()),
    }
}

/// A number written in decimal digits and nothing else.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
