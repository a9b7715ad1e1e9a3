//! What goes on, and what does not.

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().expect("a value"));
    }
    headers
}

fn through(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = headers(pairs);
    inward(&mut headers, &Uri::from_static("/"), &Extensions::new());
    headers
}

#[test]
fn what_is_about_the_connection_stays_behind() {
    let got = through(&[
        ("connection", "keep-alive, X-Private"),
        ("x-private", "for the proxy"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("transfer-encoding", "chunked"),
        ("content-length", "7"),
        ("proxy-authorization", "Basic eDp5"),
        ("accept", "text/html"),
        ("host", "8000-sb.test"),
    ]);
    for gone in [
        "connection",
        "x-private",
        "keep-alive",
        "te",
        "expect",
        "transfer-encoding",
        "content-length",
        "proxy-authorization",
    ] {
        assert!(!got.contains_key(gone), "{gone}");
    }
    assert_eq!(got["accept"], "text/html");
    assert_eq!(got["host"], "8000-sb.test");
}

#[test]
fn our_tokens_stay_behind_and_the_programs_own_go_in() {
    let access = format!("ci.{}", "0a".repeat(32));
    let bearer = format!("Bearer {access}");
    let got = through(&[
        ("x-api-key", "rk_ci_secret"),
        ("x-access-token", &access),
        ("authorization", &bearer),
        ("x-other", "e2b_726b5f63695f616263"),
        ("e2b-traffic-access-token", "anything"),
        ("e2b-sandbox-id", "sb-1"),
        ("e2b-sandbox-port", "8000"),
    ]);
    let names: Vec<&str> = got.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["x-forwarded-proto"]);

    let own =
        [("x-api-key", "sk-of-the-program"), ("authorization", "Bearer a.b.c"), ("x-access-token", "t")];
    let got = through(&own);
    for (name, value) in own {
        assert_eq!(got[name], value);
    }
}

#[test]
fn cookies_become_one_header() {
    let got = through(&[("cookie", "a=1"), ("cookie", "b=2")]);
    assert_eq!(got.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
}

#[test]
fn a_stranger_does_not_say_where_it_comes_from() {
    let claims = [("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https"), ("host", "here.test")];
    let got = through(&claims);
    assert!(!got.contains_key("x-forwarded-for"), "nobody knows the address");
    assert_eq!(
        (&got["x-forwarded-proto"], &got["x-forwarded-host"]),
        (&"http".parse().expect("a value"), &"here.test".parse().expect("a value"))
    );
    let before = HeaderValue::from_static("10.0.0.1");
    let whole = chain(Some(&before), IpAddr::from([127, 0, 0, 1])).expect("a value");
    assert_eq!(whole, "10.0.0.1, 127.0.0.1");
}

#[test]
fn an_upgrade_is_asked_for_in_both_headers() {
    let both = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
    assert_eq!(upgrade(&both).expect("asked for"), "websocket");
    assert_eq!(upgrade(&headers(&[("upgrade", "h2c")])), None);
    assert_eq!(upgrade(&headers(&[("connection", "upgrade")])), None);
}
