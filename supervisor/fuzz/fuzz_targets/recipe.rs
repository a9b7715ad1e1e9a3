//! See `rekindle::fuzzing::recipe`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::recipe(input));
