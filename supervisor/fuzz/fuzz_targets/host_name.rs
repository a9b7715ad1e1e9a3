//! See `rekindle::fuzzing::host_name`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::host_name(input));
