//! Looks for a preamble in arbitrary noise.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle_protocol::fuzzing::preamble(input));
