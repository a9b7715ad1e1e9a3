//! Signatures of links to files: a hash over the path, what is done, the user, the sandbox's access token and perhaps
//! a time. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
}

/// What a link says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub path: &'a str,
    pub user: &'a str,
    pub signature: Option<&'a str>,
    /// Seconds since 1970, as they are written.
    pub expiration: Option<&'a str>,
}

impl Signed<'_> {
    /// Whether the link was signed with this access token.
    pub(super) fn is_signed_with(&self, operation: Operation, token: &str) -> bool {
        let Some(shown) = self.signature else { return false };
        shown.as_bytes().ct_eq(self.sign(operation, token).as_bytes()).into()
    }

    /// When the link ends: never, then, or at a time that is none.
    pub(super) fn expires(&self) -> Option<Option<i64>> {
        self.expiration.map(|text| text.parse().ok())
    }

    fn sign(&self, operation: Operation, token: &str) -> String {
        let word = match operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        let mut hash = Sha256::new();
        for part in [self.path, ":", word, ":", self.user, ":", token] {
            hash.update(part);
        }
        if let Some(expiration) = self.expiration {
            hash.update(":");
            hash.update(expiration);
        }
        format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    //! Links that were changed after they were signed.

    use super::*;

    fn link<'a>(signature: &'a str, expiration: Option<&'a str>) -> Signed<'a> {
        Signed { path: "a.txt", user: "user", signature: Some(signature), expiration }
    }

    #[test]
    fn a_signature_is_the_one_the_sdks_make() {
        // sha256("a.txt:read:user:t") as Python's hashlib and base64 have it.
        let signed = link("v1_Fyig+TWr4iNmHYmwMoz+G1gfO0ymYqv2H2AxI03XOzU", None);
        assert!(signed.is_signed_with(Operation::Read, "t"));
    }

    #[test]
    fn whatever_is_changed_breaks_it() {
        let made = link("", Some("9")).sign(Operation::Read, "t");
        let signed = link(&made, Some("9"));
        assert!(signed.is_signed_with(Operation::Read, "t"));
        assert!(!signed.is_signed_with(Operation::Write, "t"));
        assert!(!signed.is_signed_with(Operation::Read, "u"));
        assert!(!link(&made, None).is_signed_with(Operation::Read, "t"));
        assert!(!link(&made, Some("10")).is_signed_with(Operation::Read, "t"));
        assert!(!Signed { path: "b.txt", ..signed }.is_signed_with(Operation::Read, "t"));
        assert!(!Signed { user: "root", ..signed }.is_signed_with(Operation::Read, "t"));
        assert!(!Signed { signature: None, ..signed }.is_signed_with(Operation::Read, "t"));
        assert_eq!(link(&made, Some("x")).expires(), Some(None));
        assert_eq!(link(&made, Some("-5")).expires(), Some(Some(-5)));
    }
}
