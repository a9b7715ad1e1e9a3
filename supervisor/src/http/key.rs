//! API keys: our own tokens, as they are or in the form that SDKs of E2B take for one of theirs, `e2b_` and the
//! hexadecimal digits of the whole secret.

use std::borrow::Cow;

use hyper::http::HeaderMap;

use crate::door::{Admitted, Authenticator, Refused};

/// The header with the key.
const HEADER: &str = "x-api-key";
/// What keys of E2B begin with.
const PREFIX: &str = "e2b_";
/// What our own begin with.
const OURS: &str = "rk_";
/// Longest header that is looked at.
const MAX_HEADER: usize = 512;

/// Who shows this key.
pub(super) fn caller(authenticator: &Authenticator, headers: &HeaderMap) -> Result<Admitted, Refused> {
    let header = headers.get(HEADER).ok_or(Refused::NoToken)?;
    let shown = header.to_str().ok().filter(|text| text.len() <= MAX_HEADER).ok_or(Refused::Malformed)?;
    authenticator.by_secret(&secret(shown).ok_or(Refused::Malformed)?)
}

/// Whether a text has the form of an API key of this server.
pub(super) fn looks_like_one(text: &str) -> bool {
    secret(text).is_some_and(|secret| secret.starts_with(OURS))
}

/// The secret of a token that a key stands for.
fn secret(key: &str) -> Option<Cow<'_, str>> {
    let Some(digits) = key.strip_prefix(PREFIX) else { return Some(key.into()) };
    let digits = digits.as_bytes();
    if digits.is_empty() || digits.len() % 2 != 0 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> =
        digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    String::from_utf8(bytes?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    //! The forms of a key.

    use super::*;

    #[test]
    fn a_key_is_a_secret_or_its_digits() {
        assert_eq!(secret("rk_ci_abc").as_deref(), Some("rk_ci_abc"));
        assert_eq!(secret("e2b_726b5f63695f616263").as_deref(), Some("rk_ci_abc"));
        assert_eq!(secret("e2b_726B").as_deref(), Some("rk"));
        for wrong in ["e2b_", "e2b_7", "e2b_zz", "e2b_ff", "e2b_72é"] {
            assert_eq!(secret(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_key_of_this_server_is_known_by_its_form() {
        assert!(looks_like_one("rk_ci_abc") && looks_like_one("e2b_726b5f63695f616263"));
        for other in ["", "secret", "e2b_", "e2b_7172", "sk_rk_"] {
            assert!(!looks_like_one(other), "{other:?}");
        }
    }
}
