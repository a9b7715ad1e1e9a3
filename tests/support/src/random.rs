//! Numbers drawn from a seed: what fails once, fails again with the seed that it names.

use std::env;

/// A small generator (SplitMix64). The same seed gives the same numbers on every machine; nothing here is secret.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers that follow from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // So that neighbouring seeds have nothing in common.
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is not 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.number() % most
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let at = usize::try_from(self.below(of.len() as u64)).expect("it is below a length");
        of[at].clone()
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number().to_le_bytes()[0]).collect()
    }

    /// Another generator, whose numbers do not depend on when they are drawn.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }
}

/// How often a test repeats something: what the environment says, else the usual.
///
/// # Panics
/// When the environment says something that is no number: a run that was meant to be long must not be short.
#[must_use]
pub fn times(variable: &str, usual: u64) -> u64 {
    match env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_its_neighbour_others() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.number()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert!(draw(7).iter().zip(draw(8)).all(|(one, other)| *one != other));
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.bytes(5).len(), 5);
    }
}
