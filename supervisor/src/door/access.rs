//! Access tokens of sandboxes: `<token id>.<MAC>`. Nothing is kept: whoever shows one was given it by a caller with
//! that token, and is let in as long as that token is.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What an access token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Programs and files of the sandbox.
    Envd,
    /// What programs in the sandbox serve.
    Traffic,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Self::Envd => "envd",
            Self::Traffic => "traffic",
        }
    }
}

/// The id in the tokens of those who may open the socket and show no token of their own. No token has it.
pub(super) const OPERATOR: &str = "";

/// The key of this process.
pub(crate) struct AccessKey([u8; 64]);

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessKey(..)")
    }
}

impl AccessKey {
    /// A key nobody has seen. With the process go its sandboxes, and so may their tokens.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut key = [0; 64];
        getrandom::fill(&mut key)?;
        Ok(Self(key))
    }

    /// The access token of a sandbox for who called with the token `id`.
    pub(crate) fn token(&self, purpose: Purpose, sandbox: &str, id: &str) -> String {
        let tag = self.mac(purpose, sandbox, id).finalize().into_bytes();
        let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}.{tag}")
    }

    /// The id of the token behind an access token that this process made for this sandbox.
    pub(crate) fn check<'a>(&self, purpose: Purpose, sandbox: &str, shown: &'a str) -> Option<&'a str> {
        let (id, tag) = shown.split_once('.')?;
        let tag = from_hex(tag)?;
        self.mac(purpose, sandbox, id).verify_slice(&tag).ok().map(|()| id)
    }

    fn mac(&self, purpose: Purpose, sandbox: &str, id: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.0.into());
        for part in [purpose.word(), sandbox, id] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}

/// Whether a text has the form of an access token, whoever made it for whatever.
pub(crate) fn looks_like_one(text: &str) -> bool {
    text.split_once('.').is_some_and(|(_, tag)| from_hex(tag).is_some())
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    //! What opens what.

    use super::*;

    #[test]
    fn a_token_opens_its_own_sandbox_for_its_own_purpose() {
        let key = AccessKey([7; 64]);
        let token = key.token(Purpose::Envd, "sb-1", "ci");
        assert_eq!(key.check(Purpose::Envd, "sb-1", &token), Some("ci"));
        assert_eq!(key.check(Purpose::Envd, "sb-2", &token), None);
        assert_eq!(key.check(Purpose::Traffic, "sb-1", &token), None);
        assert_eq!(AccessKey([8; 64]).check(Purpose::Envd, "sb-1", &token), None);
        assert!(looks_like_one(&token) && !looks_like_one("ci.00") && !looks_like_one("a.b.c"));
        let other = token.replacen("ci.", "root.", 1);
        assert_eq!(key.check(Purpose::Envd, "sb-1", &other), None, "the id is part of what is signed");
        for wrong in ["", ".", "ci", "ci.", "ci.00", &token[..token.len() - 1], &format!("{token}0")] {
            assert_eq!(key.check(Purpose::Envd, "sb-1", wrong), None, "{wrong:?}");
        }
    }
}
