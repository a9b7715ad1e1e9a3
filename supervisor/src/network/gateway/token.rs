//! The token of a sandbox for the gateway. The host keeps no more of it than its SHA-256.
//!
//! It counts on the channel of its own sandbox and nowhere else, so it is no secret that has to be kept from anybody
//! outside of the machine. Inside, it tells programs that were given it from those that were not.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The variable that executions find it in.
pub const TOKEN_VARIABLE: &str = "REKINDLE_GATEWAY_TOKEN";
/// Longest text that is looked at: a token has 47 bytes.
const MAX_PRESENTED: usize = 128;

/// A new token. Its debug form hides it.
pub struct GatewayToken(String);

impl GatewayToken {
    /// Makes one of 32 random bytes.
    ///
    /// # Errors
    /// When the system has none.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("rkg_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text to hand to the sandbox.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub(super) fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for GatewayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayToken(..)")
    }
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenDigest(pub(super) [u8; 32]);

impl TokenDigest {
    /// Whether this is the token. How long it takes says nothing about how close a guess was.
    pub(super) fn is_of(&self, presented: &[u8]) -> bool {
        if presented.len() > MAX_PRESENTED {
            return false;
        }
        let digest: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&digest).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_own_digests_and_no_others() {
        let (one, other) = (GatewayToken::generate().unwrap(), GatewayToken::generate().unwrap());
        assert_eq!(one.reveal().len(), 47);
        assert!(one.digest().is_of(one.reveal().as_bytes()));
        let cut = &one.reveal()[..46];
        let longer = format!("{}A", one.reveal());
        for wrong in ["", other.reveal(), cut, &longer, &"x".repeat(1 << 20)] {
            assert!(!one.digest().is_of(wrong.as_bytes()));
        }
        assert_eq!(format!("{one:?}"), "GatewayToken(..)");
        assert!(!format!("{:?}", one.digest()).contains(one.reveal()));
    }
}
