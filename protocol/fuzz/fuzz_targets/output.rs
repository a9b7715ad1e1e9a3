//! Shortens arbitrary output in arbitrary pieces.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle_protocol::fuzzing::output(input));
