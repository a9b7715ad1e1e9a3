//! See `rekindle::fuzzing::gateway_path`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::gateway_path(input));
