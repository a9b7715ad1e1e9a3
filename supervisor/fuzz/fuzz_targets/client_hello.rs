//! See `rekindle::fuzzing::client_hello`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::client_hello(input));
