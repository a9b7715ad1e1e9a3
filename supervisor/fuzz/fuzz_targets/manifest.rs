//! See `rekindle::fuzzing::manifest`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::manifest(input));
