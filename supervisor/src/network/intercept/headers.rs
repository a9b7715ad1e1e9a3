//! Which headers go to a server, back to a program, and into a cassette. Pure.

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::network::gateway::remove_hop_by_hop;

/// Of an answer: what opens or asks for a session, and other ways to the same server. Programs get the former all the
/// same; a cassette does not.
static NOT_RECORDED: [HeaderName; 7] = [
    header::SET_COOKIE,
    HeaderName::from_static("set-cookie2"),
    header::AUTHORIZATION,
    header::COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("proxy-authentication-info"),
];

/// Leaves of a request's headers what its server is to see. What is recorded must do for every client that asks for it
/// later: it is not compressed, and it is an answer even for one who has it already.
pub(super) fn onward(method: &Method, headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    headers.remove(header::EXPECT);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if *method == Method::GET || *method == Method::HEAD {
        for name in [&header::IF_NONE_MATCH, &header::IF_MODIFIED_SINCE, &header::IF_RANGE] {
            headers.remove(name);
        }
    }
}

/// Leaves of an answer's headers what the program is to see.
pub(super) fn back(headers: &mut HeaderMap) {
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    remove_hop_by_hop(headers);
    if chunked {
        headers.remove(header::CONTENT_LENGTH);
    }
    headers.remove(header::ALT_SVC);
}

/// What is written of an answer's headers. The length is that of the body, but for an answer that has none.
pub(super) fn recorded(headers: &HeaderMap, bodiless: bool) -> Vec<(String, String)> {
    let kept =
        |name: &HeaderName| !NOT_RECORDED.contains(name) && (bodiless || *name != header::CONTENT_LENGTH);
    let kept = headers.iter().filter(|(name, _)| kept(name));
    kept.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect()
}

/// The same as headers again.
pub(super) fn replayed(recorded: &[(String, String)]) -> HeaderMap {
    let field =
        |(name, value): &(String, String)| Some((name.parse::<HeaderName>().ok()?, value.parse().ok()?));
    let mut headers = HeaderMap::new();
    for (name, value) in recorded.iter().filter_map(field) {
        headers.append(name, value);
    }
    // Whoever wrote the file: these are for this side to say.
    remove_hop_by_hop(&mut headers);
    headers
}
