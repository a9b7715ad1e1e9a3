//! See `rekindle::fuzzing::path`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::path(input));
