//! Takes a secret out of a stream of bytes, wherever its pieces are cut. Pure.
//!
//! Every occurrence becomes as many asterisks, so that lengths stay true. What could be the beginning of the secret is
//! held back until it is known; everything before it goes on at once, so that a stream of events stays one.

use bytes::Bytes;

/// What a byte of a secret becomes.
const MASK: u8 = b'*';

/// Scrubs one stream.
#[derive(Debug)]
pub(super) struct Scrub {
    secret: Secret,
    held: Vec<u8>,
}

/// Not shown.
struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Scrub {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self { secret: Secret(secret.to_vec()), held: Vec::new() }
    }

    /// Takes a piece, and gives what may go on.
    pub(super) fn push(&mut self, piece: Bytes) -> Bytes {
        let secret = &self.secret.0[..];
        // Mostly there is nothing to do, and nothing is copied.
        if self.held.is_empty() && memchr::memchr(secret[0], &piece).is_none() {
            return piece;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&piece);
        mask(&mut all, secret);
        let longest = secret.len().saturating_sub(1).min(all.len());
        let held = (1..=longest).rev().find(|length| secret.starts_with(&all[all.len() - length..]));
        self.held = all.split_off(all.len() - held.unwrap_or(0));
        all.into()
    }

    /// The end: what was held back was no secret.
    pub(super) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}

/// Masks every occurrence of a secret, which is not empty.
fn mask(bytes: &mut [u8], secret: &[u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&bytes[from..], secret) {
        bytes[from + at..from + at + secret.len()].fill(MASK);
        from += at + secret.len();
    }
}

/// Whether a secret is in some bytes.
pub(super) fn contains(bytes: &[u8], secret: &[u8]) -> bool {
    memchr::memmem::find(bytes, secret).is_some()
}

#[cfg(test)]
mod tests {
    //! However a stream is cut.

    use proptest::prelude::*;

    use super::*;

    fn scrubbed<'a>(secret: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut scrub = Scrub::new(secret.as_bytes());
        let mut out: Vec<u8> =
            pieces.into_iter().flat_map(|piece| scrub.push(Bytes::copy_from_slice(piece))).collect();
        out.extend(scrub.finish());
        out
    }

    #[test]
    fn what_cannot_be_a_secret_goes_on_at_once() {
        let mut scrub = Scrub::new(b"sk-canary");
        assert_eq!(&scrub.push("data: hello\n\n".into())[..], b"data: hello\n\n");
        assert_eq!(&scrub.push("data: sk-c".into())[..], b"data: ");
        assert!(scrub.holds());
        assert_eq!(&scrub.push("ool\n\n".into())[..], b"sk-cool\n\n");
        assert!(!scrub.holds());
    }

    #[test]
    fn an_end_gives_out_what_was_held() {
        assert_eq!(scrubbed("sk-canary", [&b"a sk-canar"[..]]), b"a sk-canar");
        assert_eq!(scrubbed("aab", [&b"aa"[..], b"aab"]), b"aa***");
    }

    proptest! {
        #[test]
        fn no_cut_lets_a_secret_through(
            text in "[ab]{0,40}", secret in "[ab]{2,5}", cuts in proptest::collection::vec(0usize..40, 0..6)
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]);
            let whole = scrubbed(&secret, [text.as_bytes()]);
            let out = scrubbed(&secret, pieces);
            prop_assert_eq!(out.len(), text.len());
            prop_assert!(!contains(&out, secret.as_bytes()));
            prop_assert_eq!(out, whole);
        }
    }
}
