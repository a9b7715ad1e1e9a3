//! See `rekindle::fuzzing::tokens`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::tokens(input));
