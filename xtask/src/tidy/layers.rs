//! Rule: data flows `{grpc, http} → door → service → pool → vm → {engine, agent}`, and never back.
//!
//! `host`, `store`, `config`, `telemetry`, `tuning` and `network` are leaves: any layer may use them, they use
//! no layer. `mcp` is a client of the API: it uses nothing of the supervisor's, and no layer uses it. Only `grpc` names
//! tonic. Unit tests are free.

use super::{Source, code};

/// Layers from top to bottom; two in one place do not know each other.
const LAYERS: [&[&str]; 6] =
    [&["grpc", "http"], &["door"], &["service"], &["pool"], &["vm"], &["engine", "agent"]];
const LEAVES: [&str; 6] = ["host", "store", "config", "telemetry", "tuning", "network"];
/// Rooms that know nothing but themselves and the API, and that nothing below the command line knows.
const CLIENTS: [&str; 1] = ["mcp"];
const SOURCES: &str = "supervisor/src/";

/// Complains about every import that goes up or sideways.
pub fn check(source: &Source) -> Vec<String> {
    let Some(rest) = source.path.strip_prefix(SOURCES) else { return Vec::new() };
    let layer = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
    let text: String = source.without_tests().lines().map(code).collect::<Vec<_>>().join("\n");
    let mut complaints = Vec::new();
    if depth(layer).is_some() || LEAVES.contains(&layer) || CLIENTS.contains(&layer) {
        for used in imports(&text) {
            if !allowed(layer, &used) {
                complaints.push(format!("{}: {layer} must not know {used}", source.path));
            }
        }
    }
    let names_tonic = words(&text).any(|word| word == "tonic" || word.starts_with("tonic_"));
    if layer != "grpc" && names_tonic {
        complaints.push(format!("{}: only grpc may name tonic", source.path));
    }
    complaints
}

fn depth(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&layer))
}

fn allowed(layer: &str, used: &str) -> bool {
    if CLIENTS.contains(&layer) || CLIENTS.contains(&used) {
        return layer == used;
    }
    match (depth(layer), depth(used)) {
        // A leaf uses no layer.
        (None, Some(_)) => false,
        (Some(from), Some(to)) => layer == used || from < to,
        (_, None) => true,
    }
}

/// The modules of this crate that a text names: `crate::x` and `crate::{x, y::z}`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(group_heads(group));
        } else {
            found.extend(word(rest));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The first names inside a brace group: `a, b::{c, d}` gives `a` and `b`.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut level = 0;
    let mut expecting = true;
    for (at, character) in group.char_indices() {
        match character {
            '{' => level += 1,
            '}' if level == 0 => break,
            '}' => level -= 1,
            ',' if level == 0 => expecting = true,
            _ if expecting && !character.is_whitespace() => {
                heads.extend(word(&group[at..]));
                expecting = false;
            }
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> Option<String> {
    words(text).next().filter(|word| text.starts_with(word)).map(str::to_owned)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&source(&format!("supervisor/src/{path}"), text)).len()
    }

    #[test]
    fn a_layer_knows_only_what_is_below_it() {
        assert_eq!(complaints("vm/driver.rs", "use crate::engine::Engine;\nuse crate::store::Snapshot;"), 0);
        assert_eq!(complaints("engine/qemu.rs", "use crate::vm::Driver;"), 1);
        assert_eq!(complaints("engine/qemu.rs", "use crate::agent::Client;"), 1);
        assert_eq!(complaints("agent/client.rs", "let x = crate::engine::detect();"), 1);
        assert_eq!(complaints("pool/mod.rs", "use crate::{vm::{Vm, pool_of}, service::Exec};"), 1);
    }

    #[test]
    fn leaves_know_no_layer() {
        assert_eq!(complaints("host/cgroup.rs", "use crate::vm::Limits;"), 1);
        assert_eq!(complaints("config/mod.rs", "use crate::telemetry::Level;"), 0);
    }

    #[test]
    fn a_client_of_the_api_knows_nothing_behind_it() {
        assert_eq!(complaints("mcp/server.rs", "use crate::mcp::tools;"), 0);
        assert_eq!(complaints("mcp/server.rs", "use crate::service::Service;"), 1);
        assert_eq!(complaints("mcp/server.rs", "use crate::config::Dirs;"), 1);
        assert_eq!(complaints("http/front.rs", "use crate::mcp::Mcp;"), 1);
        assert_eq!(complaints("config/mod.rs", "use crate::mcp::Mcp;"), 1);
    }

    #[test]
    fn only_grpc_names_tonic() {
        assert_eq!(complaints("grpc/sandbox.rs", "use tonic::Status;"), 0);
        assert_eq!(complaints("service/exec.rs", "use tonic::Status;"), 1);
        assert_eq!(complaints("service/exec.rs", "// tonic would be wrong here\n/// tonic\nfn a() {}"), 0);
    }

    #[test]
    fn tests_and_the_binary_are_free() {
        assert_eq!(complaints("engine/tests.rs", "use crate::vm::Driver;"), 0);
        assert_eq!(
            complaints("engine/a.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n use crate::vm::V;\n}"),
            0
        );
        assert_eq!(complaints("main.rs", "use crate::vm::Driver;"), 0);
    }
}
