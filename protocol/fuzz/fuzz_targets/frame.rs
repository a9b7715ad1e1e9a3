//! Decodes requests and responses from arbitrary bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle_protocol::fuzzing::frame(input));
