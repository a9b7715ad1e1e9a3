//! Forms (`multipart/form-data`), taken apart as they come and in bounded memory. A part ends where its boundary is
//! seen whole and nowhere else: a body that breaks off is an error.

use std::io;

use axum::body::{Body, BodyDataStream};
use bytes::{Buf as _, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::try_unfold;
use memchr::memmem::Finder;
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use crate::http::refusal::HttpRefusal;

/// Longest boundary there is.
const MAX_BOUNDARY: usize = 70;
/// Bytes of a part's headers.
const MAX_HEADERS: usize = 16 * 1024;
/// Parts of a form.
const MAX_PARTS: usize = 10_000;

/// The boundary of a form, where the content type is that of one.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters, "boundary")?;
    let plain = boundary.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    Some(boundary).filter(|boundary| plain && (1..=MAX_BOUNDARY).contains(&boundary.len()))
}

/// A part's headers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub name: String,
    pub file_name: Option<String>,
}

/// A form.
#[derive(Debug)]
pub(super) struct Multipart {
    pieces: BodyDataStream,
    buffer: BytesMut,
    /// The line break before a boundary belongs to it.
    delimiter: Finder<'static>,
    state: State,
    parts: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Within a part, or before the first.
    Within,
    /// After a boundary with another part behind it.
    Between,
    /// After the last boundary, or an error.
    Over,
}

impl Multipart {
    pub(super) fn new(body: Body, boundary: &str) -> Self {
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first boundary may be at the very beginning, where no line break is before it.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let delimiter = Finder::new(&delimiter).into_owned();
        Self { pieces: body.into_data_stream(), buffer, delimiter, state: State::Within, parts: 0 }
    }

    /// The next part; what was not read of the one before is skipped.
    pub(super) async fn part(&mut self) -> Result<Option<Part>, HttpRefusal> {
        let broken = |error: io::Error| HttpRefusal::bad_request(format!("the form cannot be read: {error}"));
        while self.piece().await.map_err(broken)?.is_some() {}
        if self.state == State::Over {
            return Ok(None);
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(HttpRefusal::bad_request(format!("a form has at most {MAX_PARTS} parts")));
        }
        let headers = self.headers().await.map_err(broken)?;
        self.state = State::Within;
        part(&headers).map(Some).ok_or_else(|| HttpRefusal::bad_request("a part of the form has no name"))
    }

    /// The content of the part that was named last.
    pub(super) fn content(&mut self) -> impl AsyncRead + Unpin + Send + '_ {
        StreamReader::new(Box::pin(try_unfold(self, |form| async move {
            let piece = form.piece().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, form)))
        })))
    }

    /// The next piece of the part; `None` at its end.
    async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        if self.state != State::Within {
            return Ok(None);
        }
        let length = self.delimiter.needle().len();
        loop {
            if let Some(at) = self.delimiter.find(&self.buffer) {
                if at > 0 {
                    return Ok(Some(self.buffer.split_to(at).freeze()));
                }
                // What follows says whether there is more; the part is whole only with it.
                if let Some(&after) = self.buffer[length..].first_chunk::<2>() {
                    self.buffer.advance(length + 2);
                    self.state = match &after {
                        b"--" => State::Over,
                        b"\r\n" => State::Between,
                        _ => return Err(self.broken("a boundary that goes on")),
                    };
                    return Ok(None);
                }
            } else if self.buffer.len() >= length {
                // The end may be the beginning of a boundary.
                let safe = self.buffer.len() - (length - 1);
                return Ok(Some(self.buffer.split_to(safe).freeze()));
            }
            self.more().await?;
        }
    }

    /// The headers of a part, without the empty line after them.
    async fn headers(&mut self) -> io::Result<Bytes> {
        loop {
            if self.buffer.starts_with(b"\r\n") {
                self.buffer.advance(2);
                return Ok(Bytes::new());
            }
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                let headers = self.buffer.split_to(at).freeze();
                self.buffer.advance(4);
                // The line break before a boundary may be the one after the headers.
                return Ok(headers);
            }
            if self.buffer.len() > MAX_HEADERS {
                return Err(self.broken("the headers of a part are too long"));
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.pieces.next().await {
            Some(Ok(piece)) => {
                self.buffer.extend_from_slice(&piece);
                Ok(())
            }
            Some(Err(error)) => {
                self.state = State::Over;
                Err(io::Error::other(error))
            }
            None => Err(self.broken("it broke off")),
        }
    }

    fn broken(&mut self, what: &'static str) -> io::Error {
        self.state = State::Over;
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

fn part(headers: &[u8]) -> Option<Part> {
    let text = String::from_utf8_lossy(headers);
    let disposition = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value.trim())
    })?;
    let (kind, parameters) = disposition.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return None;
    }
    let name = parameter(parameters, "name")?;
    let file_name = parameter(parameters, "filename").filter(|name| !name.is_empty());
    Some(Part { name, file_name })
}

/// A parameter `name=value` or `name="value"`, in which clients of forms write quotes and line breaks as `%22`, `%0D`
/// and `%0A`, or with a backslash.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters.trim_start_matches([';', ' ', '\t']);
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after.trim_start_matches([';', ' ', '\t']);
    }
}

/// The value up to its closing quote, and what is after that.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let mut letters = rest.chars();
        match letters.next()? {
            '"' => return Some((value, letters.as_str())),
            '\\' if letters.as_str().starts_with(['"', '\\']) => {
                value.extend(letters.next());
                rest = letters.as_str();
            }
            '%' if rest.starts_with("%22") => (value.push('"'), rest = &rest[3..]).1,
            '%' if rest.starts_with("%0D") => (value.push('\r'), rest = &rest[3..]).1,
            '%' if rest.starts_with("%0A") => (value.push('\n'), rest = &rest[3..]).1,
            letter => {
                value.push(letter);
                rest = letters.as_str();
            }
        }
    }
}

#[cfg(test)]
mod tests;
