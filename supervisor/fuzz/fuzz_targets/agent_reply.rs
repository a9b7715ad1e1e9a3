//! See `rekindle::fuzzing::agent_reply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::agent_reply(input));
