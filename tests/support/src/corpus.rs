//! A bounded run of a fuzz target: its committed corpus, mutations of it, and noise. `cargo xtask fuzz` goes further; this
//! part runs with every test.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Inputs made from the corpus, and out of thin air, for each target.
const CASES: u32 = 1_000;
/// Longest input made out of thin air.
const MAX_NOISE: usize = 2_048;

/// Throws the seeds in a directory, and inputs made from them, at a target.
///
/// # Panics
/// When the target does, with the smallest input that makes it so.
pub fn run(directory: &Path, target: fn(&[u8])) {
    let seeds = seeds(directory);
    for (path, seed) in &seeds {
        println!("{}", path.display());
        target(seed);
    }
    let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, seed)| seed).collect();
    let input = prop_oneof![
        3 => (proptest::sample::select(seeds.clone()), proptest::collection::vec(mutation(), 1..8))
            .prop_map(|(seed, mutations)| mutations.into_iter().fold(seed, |bytes, mutation| mutation.apply(bytes))),
        1 => (proptest::sample::select(seeds.clone()), proptest::sample::select(seeds))
            .prop_map(|(first, second)| [first, second].concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..MAX_NOISE),
    ];
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&input, |input| {
        target(&input);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
}

/// The seeds in a directory, in order.
///
/// # Panics
/// When there are hardly any.
#[must_use]
pub fn seeds(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let seed = fs::read(&path).expect("a readable seed");
            (path, seed)
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 5, "{} holds too few seeds", directory.display());
    seeds
}

/// What a fuzzer does to a seed.
#[derive(Debug, Clone)]
enum Mutation {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let interesting = prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![
        (any::<Index>(), interesting).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (any::<Index>(), 1usize..16).prop_map(|(at, n)| Mutation::Remove(at, n)),
        (any::<Index>(), 1usize..64).prop_map(|(at, n)| Mutation::Repeat(at, n)),
        any::<Index>().prop_map(Mutation::Cut),
    ]
}

impl Mutation {
    fn apply(self, mut bytes: Vec<u8>) -> Vec<u8> {
        let spot = |index: &Index, length: usize| index.index(length + 1);
        match self {
            Self::Set(at, byte) => {
                let at = spot(&at, bytes.len());
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            Self::Flip(at, bit) => {
                let at = spot(&at, bytes.len());
                if let Some(there) = bytes.get_mut(at) {
                    *there ^= 1 << bit;
                }
            }
            Self::Insert(at, new) => {
                let at = spot(&at, bytes.len());
                bytes.splice(at..at, new);
            }
            Self::Remove(at, n) => {
                let at = spot(&at, bytes.len());
                bytes.drain(at..bytes.len().min(at + n));
            }
            Self::Repeat(at, n) => {
                let at = spot(&at, bytes.len());
                let piece = bytes[at..bytes.len().min(at + n)].to_vec();
                bytes.splice(at..at, piece);
            }
            Self::Cut(at) => bytes.truncate(spot(&at, bytes.len())),
        }
        bytes
    }
}
