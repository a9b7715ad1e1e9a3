//! The one rule by which output is shortened: head and tail stay, a marker says how much was cut.
//!
//! The agent feeds a [`Collector`] while a program runs, in bounded memory whatever the program prints; the
//! supervisor applies [`shorten`] again to what it receives, since it does not trust the guest. It never
//! keeps the exact bytes: that is the kept file's job.

use std::fmt::Write as _;
use std::str;

/// What was collected of one output stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// At most as many characters as the limit, the marker included.
    pub text: String,
    /// Whether something was cut.
    pub truncated: bool,
    /// Bytes that went in.
    pub total_bytes: u64,
    /// Characters in them; every maximal invalid sequence counts as one.
    pub total_chars: u64,
}

/// Collects a stream of bytes as text of a limited number of characters.
#[derive(Debug)]
pub struct Collector {
    limit: usize,
    /// The first `limit` characters.
    head: String,
    head_chars: usize,
    /// At least the last `limit` characters of what did not fit into the head, or all of them.
    tail: String,
    total_bytes: u64,
    total_chars: u64,
    /// The start of a character whose other bytes have not arrived.
    partial: Vec<u8>,
}

impl Collector {
    /// Collects up to `limit` characters; see [`MIN_OUTPUT_LIMIT`](crate::limits::MIN_OUTPUT_LIMIT).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            head: String::new(),
            head_chars: 0,
            tail: String::new(),
            total_bytes: 0,
            total_chars: 0,
            partial: Vec::new(),
        }
    }

    /// Takes the next bytes, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        if self.partial.is_empty() {
            self.decode(bytes);
        } else {
            // At most three bytes wait, so the copy is as large as the piece, no larger.
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.decode(&joined);
        }
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self) -> Collected {
        if !self.partial.is_empty() {
            self.take("\u{fffd}");
        }
        let truncated = self.total_chars > self.limit as u64;
        let text = if truncated {
            let cut = Cut::plan(self.total_chars, self.limit);
            let mut text = String::with_capacity(self.head.len());
            text.push_str(first_chars(&self.head, cut.head));
            text.push_str(&cut.marker);
            // The tail holds only what came after the head; a short one is completed from the head.
            let missing = cut.tail.saturating_sub(self.tail.chars().count());
            text.push_str(last_chars(&self.head, missing));
            text.push_str(last_chars(&self.tail, cut.tail));
            text
        } else {
            self.head
        };
        Collected { text, truncated, total_bytes: self.total_bytes, total_chars: self.total_chars }
    }

    fn decode(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match str::from_utf8(bytes) {
                Ok(text) => {
                    self.take(text);
                    return;
                }
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    if let Ok(text) = str::from_utf8(valid) {
                        self.take(text);
                    }
                    let Some(invalid) = error.error_len() else {
                        self.partial = rest.to_vec();
                        return;
                    };
                    self.take("\u{fffd}");
                    bytes = &rest[invalid..];
                }
            }
        }
    }

    fn take(&mut self, text: &str) {
        let chars = text.chars().count();
        self.total_chars += chars as u64;
        let mut rest = text;
        if self.head_chars < self.limit {
            let fitting = first_chars(text, self.limit - self.head_chars);
            self.head.push_str(fitting);
            self.head_chars += fitting.chars().count();
            rest = &text[fitting.len()..];
        }
        if rest.is_empty() {
            return;
        }
        self.tail.push_str(last_chars(rest, self.limit));
        // Trimmed only when it has doubled, so that small pieces do not each cost a move of the whole tail.
        if self.tail.len() > 2 * 4 * self.limit {
            let keep = last_chars(&self.tail, self.limit).len();
            self.tail.drain(..self.tail.len() - keep);
        }
    }
}

/// Shortens text that is already whole, by the same rule. `None` when it fits.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> Option<String> {
    // A character has at least one byte: most texts need no counting.
    if text.len() <= limit {
        return None;
    }
    let total = text.chars().count();
    if total <= limit {
        return None;
    }
    let cut = Cut::plan(total as u64, limit);
    Some(format!("{}{}{}", first_chars(text, cut.head), cut.marker, last_chars(text, cut.tail)))
}

/// How a text that is too long is divided.
struct Cut {
    head: usize,
    tail: usize,
    marker: String,
}

impl Cut {
    /// The marker names how much is missing, and its own length decides how much that is: the number of
    /// digits is grown until it fits, which it does since one digit more cuts exactly one character more.
    fn plan(total: u64, limit: usize) -> Self {
        let mut marker = String::new();
        let mut kept = limit;
        loop {
            marker.clear();
            let cut = total - kept as u64;
            // Writing to a string cannot fail.
            let _ = write!(marker, "\n[... {cut} characters cut ...]\n");
            let fitting = limit.saturating_sub(marker.len());
            if fitting == kept || kept == 0 {
                let tail = kept / 2;
                return Self { head: kept - tail, tail, marker };
            }
            kept = fitting;
        }
    }
}

fn first_chars(text: &str, n: usize) -> &str {
    text.char_indices().nth(n).map_or(text, |(at, _)| &text[..at])
}

fn last_chars(text: &str, n: usize) -> &str {
    match n.checked_sub(1) {
        None => "",
        Some(n) => text.char_indices().rev().nth(n).map_or(text, |(at, _)| &text[at..]),
    }
}

#[cfg(test)]
mod tests;
