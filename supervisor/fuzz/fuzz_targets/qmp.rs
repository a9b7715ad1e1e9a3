//! See `rekindle::fuzzing::qmp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::qmp(input));
