//! Feeds the multiplexer a peer that says anything at all.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    rekindle_protocol::fuzzing::mux(input);
});
