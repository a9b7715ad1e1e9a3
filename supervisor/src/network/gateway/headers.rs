//! Which headers go on, in either direction. Pure.
//!
//! All do but those that belong to one connection, those that say who asks or where from, and those by which some
//! upstreams read another method or path than the one that was allowed.

use hyper::header::{self, HeaderMap, HeaderName};

use super::scrub;

/// Of one connection, in either direction.
static HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that a program may send its token in, besides the one that its service's credential has.
pub(super) static TOKEN_HEADERS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Of a request: what is set anew, who asks, and what would make another request of it.
const NOT_ONWARD: [&str; 22] = [
    "accept-encoding",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Of an answer: sessions that the credential has opened, and other ways to the same server.
static NOT_BACK: [HeaderName; 3] =
    [header::SET_COOKIE, HeaderName::from_static("set-cookie2"), header::ALT_SVC];

/// Leaves of a request's headers what goes on; `credential` is the one that the service's credential has.
pub(super) fn onward(headers: &mut HeaderMap, credential: Option<&HeaderName>) {
    remove_hop_by_hop(headers);
    for name in TOKEN_HEADERS.iter().chain(credential) {
        headers.remove(name);
    }
    for name in NOT_ONWARD {
        headers.remove(name);
    }
}

/// Leaves of an answer's headers what goes back. One that holds the secret does not.
pub(super) fn back(headers: &mut HeaderMap, secret: Option<&[u8]>) {
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    remove_hop_by_hop(headers);
    if chunked {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in &NOT_BACK {
        headers.remove(name);
    }
    let Some(secret) = secret else { return };
    let tells = |(name, value): (&HeaderName, &header::HeaderValue)| {
        scrub::contains(value.as_bytes(), secret).then(|| name.clone())
    };
    let telling: Vec<HeaderName> = headers.iter().filter_map(tells).collect();
    for name in telling {
        headers.remove(name);
    }
}

/// Takes out those of one connection, and those that it says are.
pub(in crate::network) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let listed = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed: Vec<String> =
        listed.flat_map(|value| value.split(',').map(|name| name.trim().to_owned())).collect();
    for name in listed {
        headers.remove(name.as_str());
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    //! What is let through, and what is not.

    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| -> (HeaderName, header::HeaderValue) {
            (name.parse().unwrap(), value.parse().unwrap())
        };
        fields.iter().map(field).collect()
    }

    fn left(headers: &HeaderMap) -> Vec<String> {
        let mut left: Vec<String> = headers.keys().map(ToString::to_string).collect();
        left.sort();
        left
    }

    #[test]
    fn nothing_says_who_asked_or_means_another_request() {
        let mut headers = map(&[
            ("accept", "text/event-stream"),
            ("accept-encoding", "gzip"),
            ("anthropic-version", "2023-06-01"),
            ("authorization", "Bearer rkg_x"),
            ("connection", "close, X-Own"),
            ("content-length", "3"),
            ("content-type", "application/json"),
            ("cookie", "a=b"),
            ("private-key", "rkg_x"),
            ("proxy-authorization", "Basic x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-api-key", "rkg_x"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-http-method-override", "DELETE"),
            ("x-original-url", "/admin"),
            ("x-own", "1"),
            ("x-stainless-lang", "python"),
        ]);
        onward(&mut headers, Some(&HeaderName::from_static("private-key")));
        assert_eq!(left(&headers), ["accept", "anthropic-version", "content-type", "x-stainless-lang"]);
    }

    #[test]
    fn an_answer_brings_no_session_and_no_secret() {
        let mut headers = map(&[
            ("alt-svc", "h3=\":443\""),
            ("content-length", "7"),
            ("content-type", "text/plain"),
            ("location", "https://elsewhere.example/"),
            ("set-cookie", "session=1"),
            ("transfer-encoding", "chunked"),
            ("x-echo", "you said: Bearer sk-canary, thank you"),
            ("x-request-id", "7"),
        ]);
        back(&mut headers, Some(b"sk-canary"));
        assert_eq!(left(&headers), ["content-type", "location", "x-request-id"]);
    }
}
