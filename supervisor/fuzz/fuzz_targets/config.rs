//! See `rekindle::fuzzing::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::config(input));
