//! One question of DNS and its answer. Pure.
//!
//! Only addresses of IPv4 are told. Any other question about a name gets an answer with nothing in it: no address of
//! IPv6, so that programs do not try those first, and no other record, so that nothing can be carried in one. Nothing
//! is asked of anybody outside.

use std::net::Ipv4Addr;

const HEADER: usize = 12;
/// Most bytes of a name as it is written in a question.
const MAX_NAME: usize = 255;
const MAX_LABEL: u8 = 63;
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;
/// An answer, recursion is available.
const ANSWERED: u16 = 0x8080;
/// Kept of a question: its operation, and that recursion is desired.
const KEPT: u16 = 0x7900;
const NAME_ERROR: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;
/// Seconds that an answer may be kept.
const TTL: u32 = 60;
/// Where the name of the question is, as answers refer to it.
const NAME_OF_QUESTION: [u8; 2] = [0xc0, HEADER as u8];

/// Answers a question; `None` when it is none. `address` tells what stands for a name in lower case.
pub fn answer(question: &[u8], address: impl FnOnce(&str) -> Ipv4Addr) -> Option<Vec<u8>> {
    let header = question.first_chunk::<HEADER>()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let flags = word(2);
    if flags & 0x8000 != 0 || word(4) != 1 {
        return None;
    }
    let asked = Asked::read(&question[HEADER..])?;
    let mut code = 0;
    let mut found = None;
    if flags & 0x7800 != 0 {
        code = NOT_IMPLEMENTED;
    } else if !asked.is_host {
        code = NAME_ERROR;
    } else if (asked.kind, asked.class) == (TYPE_A, CLASS_IN) {
        found = Some(address(&asked.name));
    }
    let mut reply = Vec::with_capacity(HEADER + asked.length + 16);
    for word in [word(0), flags & KEPT | ANSWERED | code, 1, u16::from(found.is_some()), 0, 0] {
        reply.extend_from_slice(&word.to_be_bytes());
    }
    reply.extend_from_slice(&question[HEADER..HEADER + asked.length]);
    if let Some(found) = found {
        reply.extend_from_slice(&NAME_OF_QUESTION);
        reply.extend_from_slice(&TYPE_A.to_be_bytes());
        reply.extend_from_slice(&CLASS_IN.to_be_bytes());
        reply.extend_from_slice(&TTL.to_be_bytes());
        reply.extend_from_slice(&4u16.to_be_bytes());
        reply.extend_from_slice(&found.octets());
    }
    Some(reply)
}

/// What is asked for.
struct Asked {
    /// In lower case, without a final dot.
    name: String,
    /// Whether it can be the name of a host: two labels or more, of letters, digits, hyphens and underscores.
    is_host: bool,
    kind: u16,
    class: u16,
    /// Bytes of all that.
    length: usize,
}

impl Asked {
    fn read(question: &[u8]) -> Option<Self> {
        let mut name = String::new();
        let mut is_host = true;
        let mut labels = 0;
        let mut at = 0;
        loop {
            let length = *question.get(at)?;
            at += 1;
            if length == 0 {
                break;
            }
            if length > MAX_LABEL {
                return None;
            }
            let label = question.get(at..at + usize::from(length))?;
            at += label.len();
            if at > MAX_NAME {
                return None;
            }
            is_host &= label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
            if labels > 0 {
                name.push('.');
            }
            labels += 1;
            name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        let &[a, b, c, d] = question.get(at..)?.first_chunk::<4>()?;
        Some(Self {
            name,
            is_host: is_host && labels >= 2,
            kind: u16::from_be_bytes([a, b]),
            class: u16::from_be_bytes([c, d]),
            length: at + 4,
        })
    }
}

#[cfg(test)]
mod tests;
