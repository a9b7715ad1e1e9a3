//! See `rekindle::fuzzing::requests`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::requests(input));
