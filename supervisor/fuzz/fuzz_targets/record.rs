//! See `rekindle::fuzzing::record`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::record(input));
