//! The checksum both sides of a transfer compare: XXH64, with seed 0.
//!
//! It finds what a broken channel, disk or program does to bytes. It is no proof against a guest that lies, and
//! no checksum made by the guest could be one; see docs/performance.md. A caller's SHA-256 is made on the host.

use std::hash::Hasher as _;

use twox_hash::XxHash64;

/// A checksum in the making.
#[derive(Debug, Clone)]
pub struct Checksum(XxHash64);

impl Default for Checksum {
    fn default() -> Self {
        Self(XxHash64::with_seed(0))
    }
}

impl Checksum {
    /// The checksum of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Self::default();
        checksum.update(bytes);
        checksum.finish()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of everything that was added.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    //! The published values, and pieces that add up.

    use super::*;

    #[test]
    fn it_is_the_algorithm_it_says_it_is() {
        assert_eq!(Checksum::of(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(Checksum::of(b"abc"), 0x44BC_2CF5_AD77_0999);
    }

    #[test]
    fn pieces_make_the_same_sum_as_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number * 7 % 251) as u8).collect();
        for size in [1, 31, 32, 33, 4096, 65_537] {
            let mut checksum = Checksum::default();
            bytes.chunks(size).for_each(|piece| checksum.update(piece));
            assert_eq!(checksum.finish(), Checksum::of(&bytes), "{size}");
        }
    }
}
