//! See `rekindle::fuzzing::api_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::api_message(input));
