//! See `rekindle::fuzzing::ledger`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rekindle::fuzzing::ledger(input));
