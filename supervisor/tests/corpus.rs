//! A bounded run of the fuzz targets: the same entry points, fed with the committed corpus, with mutations of it and with
//! noise. `cargo xtask fuzz` goes further; this part runs with every test.

use std::path::Path;

use rekindle::fuzzing;
use rekindle_test_support::corpus::run;

fn corpus(name: &str, target: fn(&[u8])) {
    run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name), target);
}

#[test]
fn what_an_agent_answers_is_taken_in_bounds_or_refused() {
    corpus("agent_reply", fuzzing::agent_reply);
}

#[test]
fn any_bytes_are_a_path_in_bounds_or_none() {
    corpus("path", fuzzing::path);
}

#[test]
fn any_line_of_qemus_monitor_is_understood_or_refused() {
    corpus("qmp", fuzzing::qmp);
}

#[test]
fn whatever_firecracker_answers_is_told_in_few_words() {
    corpus("firecracker", fuzzing::firecracker);
}

#[test]
fn a_manifest_is_read_as_what_it_says_or_not_at_all() {
    corpus("manifest", fuzzing::manifest);
}

#[test]
fn a_record_is_read_as_what_it_says_or_not_at_all() {
    corpus("record", fuzzing::record);
}

#[test]
fn any_line_of_a_ledger_counts_or_does_not() {
    corpus("ledger", fuzzing::ledger);
}

#[test]
fn any_recipe_is_one_or_is_refused() {
    corpus("recipe", fuzzing::recipe);
}

#[test]
fn any_configuration_is_taken_or_complained_about() {
    corpus("config", fuzzing::config);
}

#[test]
fn any_tokens_file_is_in_order_or_refused() {
    corpus("tokens", fuzzing::tokens);
}

#[test]
fn a_client_hello_names_one_server_that_it_says_or_is_refused() {
    corpus("client_hello", fuzzing::client_hello);
}

#[test]
fn requests_go_on_as_they_came_or_are_refused() {
    corpus("requests", fuzzing::requests);
}

#[test]
fn any_text_is_a_name_or_none() {
    corpus("host_name", fuzzing::host_name);
}

#[test]
fn a_path_of_an_operation_means_the_same_to_every_reader() {
    corpus("gateway_path", fuzzing::gateway_path);
}

#[test]
fn frames_of_a_stream_are_the_same_however_they_are_cut() {
    corpus("connect_frames", fuzzing::connect_frames);
}

#[test]
fn a_message_of_json_means_the_same_on_its_way_back() {
    corpus("api_message", fuzzing::api_message);
}
