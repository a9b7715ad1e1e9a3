//! See `rekindle::fuzzing::firecracker`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::firecracker(input));
