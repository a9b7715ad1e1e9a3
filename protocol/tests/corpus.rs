//! A bounded run of the fuzz targets: the same entry points, fed with the committed corpus, with mutations of
//! it and with noise. `cargo xtask fuzz` goes further; this part runs with every test.

use std::path::PathBuf;

use rekindle_protocol::fuzzing;
use rekindle_test_support::corpus::{run, seeds};

#[test]
fn any_frame_decodes_or_is_refused() {
    run(&corpus("frame"), fuzzing::frame);
}

#[test]
fn a_preamble_is_found_exactly_where_there_is_one() {
    run(&corpus("preamble"), fuzzing::preamble);
}

#[test]
fn a_multiplexer_survives_any_peer() {
    run(&corpus("mux"), |input| {
        fuzzing::mux(input);
    });
}

#[test]
fn the_multiplexers_seeds_get_as_far_as_a_stream() {
    let streams = |name: &str| {
        let (_, seed) =
            seeds(&corpus("mux")).into_iter().find(|(path, _)| path.ends_with(name)).expect("a seed");
        fuzzing::mux(&seed)
    };
    assert_eq!(streams("hello"), 1);
    assert_eq!(streams("two-streams"), 2);
    assert_eq!(streams("bad-version"), 0);
}

#[test]
fn output_is_shortened_exactly_whatever_it_is() {
    run(&corpus("output"), fuzzing::output);
}

fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}
