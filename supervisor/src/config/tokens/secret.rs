//! Secrets: `rk_<id>_<43 characters>`, 32 random bytes in URL-safe base64. Only their SHA-256 is kept.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::{TokenId, TokensError};

/// A new secret. It is shown once; its debug form hides it.
pub struct Secret(String);

impl Secret {
    /// Makes one for the token `id`.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn generate(id: &TokenId) -> Result<Self, TokensError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|source| TokensError::Random { source })?;
        Ok(Self(format!("rk_{id}_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text to hand to the caller.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The same for clients of E2B, of which some versions look at the form of a key before they send it: `e2b_` and
    /// the hexadecimal digits of the text.
    #[must_use]
    pub fn e2b_key(&self) -> String {
        format!("e2b_{}", to_hex(self.0.as_bytes()))
    }

    /// What is kept of it.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        sum(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// 32 random bytes need no slow hash: there is nothing to guess.
pub(super) fn sum(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Result<[u8; 32], String> {
    let wrong = || "sha256 is not 64 hexadecimal digits".to_owned();
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut sum = [0; 32];
    for (byte, at) in sum.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(sum)
}
