//! See `rekindle::fuzzing::connect_frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::connect_frames(input));
