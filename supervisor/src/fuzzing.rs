//! One entry point per decoder of what others have written: guests, monitors, operators, earlier versions. Shared by the
//! fuzz targets in `supervisor/fuzz` and by `tests/corpus.rs`, so that both throw the same input at the same code. Not
//! part of the library's interface.
//!
//! Each asserts what its caller relies on, beside not panicking.

use bytes::Bytes;
use rekindle_protocol::limits::{MAX_PATH_BYTES, MIN_OUTPUT_LIMIT};
use rekindle_protocol::wire::{self, response::Reply};

use crate::agent::{FileInfo, Finished, GuestPath};
use crate::config::Recipe;
use crate::config::server::Sources;
use crate::config::tokens::Tokens;
use crate::engine::firecracker::{api, metrics};
use crate::engine::qemu::qmp;
use crate::http::{decode_frames, there_and_back};
use crate::network::{ClientHelloReader, HostName, NamePattern, Requests};
use crate::service;
use crate::store::Manifest;
use crate::vm;

/// What an agent answers, as far as the host takes it in: results, files, listings.
pub fn agent_reply(input: &[u8]) {
    let limit = MIN_OUTPUT_LIMIT + input.len() % 100;
    let Ok(response) = <wire::Response as prost::Message>::decode(Bytes::copy_from_slice(input)) else {
        return;
    };
    match response.reply {
        Some(Reply::Result(result)) => {
            if let Ok(finished) = Finished::from_wire(result, limit) {
                for output in [&finished.stdout, &finished.stderr] {
                    assert!(output.text.chars().count() <= limit, "text beyond what was asked for");
                    assert!(output.spilled_bytes <= output.total_bytes, "more kept than there was");
                }
                serde_json::to_string(&finished).expect("a result can be shown");
            }
        }
        Some(Reply::Listing(listing)) => {
            for entry in listing.entries.iter().filter_map(|entry| FileInfo::entry(entry, 1).ok()) {
                assert!(!entry.path.as_bytes().contains(&b'/'), "a name that is a path");
            }
            for entry in listing.entries.iter().filter_map(|entry| FileInfo::entry(entry, 3).ok()) {
                beneath(&entry.path, 3);
            }
        }
        _ => {}
    }
}

/// A path that a caller or an agent names.
pub fn path(input: &[u8]) {
    if let Ok(path) = GuestPath::new(Bytes::copy_from_slice(input)) {
        assert!((1..=MAX_PATH_BYTES).contains(&path.as_bytes().len()), "a path of any length");
        let shown = path.to_string();
        assert!(!shown.chars().any(char::is_control), "a path that moves the cursor");
    }
    for depth in [1, 2, 9] {
        if let Some(path) = GuestPath::below(input, depth) {
            beneath(&path, depth as usize);
        }
    }
}

/// Whether a path leads at most so far down, and never up.
fn beneath(path: &GuestPath, depth: usize) {
    let names: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
    assert!(names.len() <= depth && names.iter().all(|name| ![&b""[..], b".", b".."].contains(name)));
}

/// A line that QEMU's monitor says.
pub fn qmp(input: &[u8]) {
    let _ = qmp::Incoming::parse(input);
}

/// What Firecracker answers, and its metrics.
pub fn firecracker(input: &[u8]) {
    let _ = api::fault(input);
    assert!(metrics::trouble(input).chars().count() <= 4096, "a digest without a bound");
}

/// A snapshot's description.
pub fn manifest(input: &[u8]) {
    if let Ok(manifest) = serde_json::from_slice::<Manifest>(input) {
        let text = serde_json::to_vec(&manifest).expect("it was JSON");
        let again: Manifest = serde_json::from_slice(&text).expect("it still is");
        assert!(again == manifest && again.digest() == manifest.digest(), "a manifest changed on its way");
    }
}

/// The record of a machine.
pub fn record(input: &[u8]) {
    if let Ok(record) = vm::Record::parse(input) {
        let text = serde_json::to_vec(&record).expect("it was JSON");
        assert!(vm::Record::parse(&text).is_ok_and(|again| again == record), "a record changed on its way");
    }
}

/// A line of the usage ledger.
pub fn ledger(input: &[u8]) {
    let _ = service::read_line(input);
}

/// A template's recipe.
pub fn recipe(input: &[u8]) {
    let (Ok(text), Ok(name)) = (std::str::from_utf8(input), "fuzz".parse()) else { return };
    let _ = Recipe::parse(&name, text);
}

/// The configuration.
pub fn config(input: &[u8]) {
    let Some(table) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<toml::Table>().ok())
    else {
        return;
    };
    match Sources::default().assemble(Some(("fuzz.toml".into(), table))) {
        Ok(loaded) => assert!(!loaded.rows().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The tokens.
pub fn tokens(input: &[u8]) {
    let Some(tokens) = std::str::from_utf8(input).ok().and_then(|text| Tokens::parse(text).ok()) else {
        return;
    };
    for token in tokens.iter() {
        assert!(!token.scopes.is_empty() && token.tenant != crate::config::tokens::LOCAL_TENANT);
        assert!(tokens.get(&token.id) == Some(token), "two of one id");
    }
}

/// The first bytes of a TLS client, whole and in pieces.
pub fn client_hello(input: &[u8]) {
    let whole = ClientHelloReader::default().push(input);
    let mut reader = ClientHelloReader::default();
    let pieces = input.chunks(7).find_map(|piece| reader.push(piece).transpose());
    if let Ok(Some(hello)) = &whole {
        // Records may lie in between, so the letters are looked for in their order.
        let mut said = input.iter().map(u8::to_ascii_lowercase);
        let in_order = hello.server_name.as_str().bytes().all(|letter| said.any(|byte| byte == letter));
        assert!(in_order, "a name that was not said");
        assert!(matches!(&pieces, Some(Ok(other)) if other == hello), "pieces name another server");
    }
    if let Some(Ok(hello)) = &pieces {
        assert!(!matches!(&whole, Ok(Some(other)) if other != hello), "pieces name another server");
    }
}

/// Requests of HTTP/1, whole and in pieces.
pub fn requests(input: &[u8]) {
    let Ok(host) = HostName::parse("deb.debian.org") else { return };
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let mut requests = Requests::new(host.clone(), 80);
    let refused = requests.push(input, &mut whole, &|| true).err();
    let mut others = Requests::new(host.clone(), 80);
    let refused_in_pieces = input.chunks(3).find_map(|piece| others.push(piece, &mut pieces, &|| true).err());
    assert!(refused == refused_in_pieces && whole == pieces, "pieces are read otherwise");
    assert!(input.starts_with(&whole), "something goes on that did not come");
    // What has gone on is in order, seen by somebody who has seen nothing else.
    let mut again = Vec::new();
    let mut last = Requests::new(host, 80);
    if last.push(&whole, &mut again, &|| true).is_err() {
        assert!(refused.is_some(), "what was let through is refused");
    } else {
        assert!(last.passed() == requests.passed(), "a request more or less");
    }
}

/// A name of a host, and a pattern of a rule.
pub fn host_name(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(name) = HostName::parse(text) {
        assert!(HostName::parse(name.as_str()).is_ok_and(|again| again == name), "a name changed on its way");
        assert!(name.as_str().parse::<std::net::IpAddr>().is_err(), "an address that is a name");
    }
    if let Ok(pattern) = NamePattern::parse(text) {
        let again = NamePattern::parse(&pattern.to_string());
        assert!(again.is_ok_and(|again| again == pattern), "a pattern changed on its way");
    }
}

/// A path that is asked of the gateway: one that is an operation's means the same to a reader that decodes it first.
pub fn gateway_path(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if !crate::network::gateway::is_path_of("/v1/items/{id}", text) {
        return;
    }
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        let escape = (*byte == b'%').then(|| std::str::from_utf8(&tail[..2]).expect("two digits"));
        decoded.push(escape.map_or(*byte, |digits| u8::from_str_radix(digits, 16).expect("a byte")));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    let id = decoded.strip_prefix(b"/v1/items/").expect("what is not open is as it is written");
    assert!(!id.is_empty() && id != b"." && id != b"..", "another segment");
    assert!(!id.iter().any(|byte| matches!(byte, b'/' | b'\\' | b'%' | b';' | 0..=31)), "another path");
}

/// The frames of a Connect stream, whole and in pieces.
pub fn connect_frames(input: &[u8]) {
    let most = 64;
    let whole = decode_frames(input, input.len().max(1), most);
    assert!(decode_frames(input, 3, most) == whole, "pieces are read otherwise");
    assert!(whole.0.iter().all(|message| message.len() <= most), "a message beyond its limit");
    let taken: usize = whole.0.iter().map(|message| 5 + message.len()).sum();
    assert!(
        taken <= input.len() && (taken == input.len()) == whole.1,
        "bytes that came from nowhere, or went there"
    );
}

/// A message of the API in JSON, of the method that the first byte names: what is taken means the same on its way back.
pub fn api_message(input: &[u8]) {
    let Some((number, json)) = input.split_first() else { return };
    if let Some((message, back)) = there_and_back((*number).into(), json) {
        assert!(Some(message) == back, "a message that changes on its way");
    }
}
