//! What of a message's headers goes on to the other side: all that is about the message, nothing that is about the
//! connection it came on, and none of our own tokens.

use std::net::IpAddr;

use axum::http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Uri};

use super::admit::HEADER as TRAFFIC_TOKEN;
use crate::door::{ConnectionInfo, Peer, looks_like_access_token};
use crate::http::front::{PORT_HEADER, SANDBOX_HEADER};
use crate::http::key;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// What is about a connection, besides what its `Connection` header names.
const OF_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What a request came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn word(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// Makes the headers of a request those that a program in a sandbox gets.
pub(super) fn inward(headers: &mut HeaderMap, uri: &Uri, extensions: &Extensions) {
    remove_hops(headers);
    // It was met here: the body is asked for as soon as the program takes it.
    headers.remove(EXPECT);
    headers.remove(SANDBOX_HEADER);
    headers.remove(PORT_HEADER);
    headers.remove(TRAFFIC_TOKEN);
    remove_tokens(headers);
    join_cookies(headers);
    if let Some(host) = uri.authority().and_then(|authority| HeaderValue::try_from(authority.as_str()).ok()) {
        headers.insert(HOST, host);
    }
    say_whence(headers, extensions);
}

/// Has a request name this host, which has been checked.
pub(super) fn set_host(headers: &mut HeaderMap, host: &str) {
    if let Ok(host) = HeaderValue::try_from(host) {
        headers.insert(HOST, host);
    }
}

/// Makes the headers of a program's answer those that a visitor gets.
pub(super) fn outward(headers: &mut HeaderMap) {
    remove_hops(headers);
}

/// What a connection is to become, where the headers ask for that.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = named_by_connection(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

/// Has a message say that its connection becomes something else.
pub(super) fn set_upgrade(headers: &mut HeaderMap, to: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, to);
}

fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn remove_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = named_by_connection(headers).filter_map(|name| name.parse().ok()).collect();
    // A length beside a coding counts for nothing, and must not count for the next reader either.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

/// Removes what has the form of a key or an access token of this server, whatever its header is called. Others of the
/// same name are the program's own.
fn remove_tokens(headers: &mut HeaderMap) {
    let ours = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        let text = text.split_once(' ').map_or(text, |(_, token)| token).trim();
        key::looks_like_one(text) || looks_like_access_token(text)
    };
    let names: Vec<HeaderName> =
        headers.iter().filter(|(_, value)| ours(value)).map(|(name, _)| name.clone()).collect();
    for name in names {
        headers.remove(name);
    }
}

/// HTTP/2 sends cookies one by one, HTTP/1.1 knows them in one header alone.
fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// Says where a request comes from. What it says about that itself is believed of a proxy on this host alone.
fn say_whence(headers: &mut HeaderMap, extensions: &Extensions) {
    let address = match ConnectionInfo::of(extensions).peer {
        Peer::Tcp { address } => address.map(|address| address.ip().to_canonical()),
        Peer::Socket { .. } => None,
    };
    if !address.is_some_and(|address| address.is_loopback()) {
        for name in [FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
            headers.remove(name);
        }
    }
    if let Some(whence) = address.and_then(|address| chain(headers.get(FORWARDED_FOR), address)) {
        headers.insert(FORWARDED_FOR, whence);
    }
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
    let scheme = extensions.get().copied().unwrap_or(Scheme::Http);
    headers.entry(FORWARDED_PROTO).or_insert_with(|| scheme.word());
}

/// The addresses a request has come from, the last one last.
fn chain(before: Option<&HeaderValue>, address: IpAddr) -> Option<HeaderValue> {
    let before = before.and_then(|value| value.to_str().ok());
    let whole = before.map_or_else(|| address.to_string(), |before| format!("{before}, {address}"));
    HeaderValue::try_from(whole).ok()
}

#[cfg(test)]
mod tests;
