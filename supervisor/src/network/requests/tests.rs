//! Requests as clients send them, and as smugglers do.

use proptest::prelude::*;

use super::*;

fn requests() -> Requests {
    Requests::new(HostName::parse("deb.debian.org").unwrap(), 80)
}

/// What goes on of some bytes, and why not the rest.
fn push(bytes: &[u8]) -> (Vec<u8>, Option<RequestError>) {
    let mut onward = Vec::new();
    let refused = requests().push(bytes, &mut onward, &|| true).err();
    (onward, refused)
}

fn refused(text: &str) -> Option<RequestError> {
    let (onward, error) = push(text.as_bytes());
    if error.is_some() {
        assert!(onward.is_empty(), "part of a refused request goes on: {text:?}");
    }
    error
}

/// A request with these lines after those that are in order.
fn with(lines: &str) -> Option<RequestError> {
    refused(&format!("POST /x HTTP/1.1\r\nHost: deb.debian.org\r\n{lines}\r\n"))
}

const GET: &str = "GET /debian/x.deb HTTP/1.1\r\nHost: deb.debian.org\r\nAccept: */*\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nhost: deb.debian.org:80\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str = "PUT /b HTTP/1.1\r\nHost: DEB.Debian.org.\r\nTransfer-Encoding: Chunked\r\n\r\n\
                       5\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n";

#[test]
fn requests_to_the_host_go_on_as_they_are_in_pieces_of_any_size() {
    let all = [GET, POST, CHUNKED, GET, CHUNKED, POST].concat().into_bytes();
    for size in [1, 2, 3, 7, 64, all.len()] {
        let (mut requests, mut onward) = (requests(), Vec::new());
        for piece in all.chunks(size) {
            requests.push(piece, &mut onward, &|| true).unwrap();
        }
        assert_eq!(String::from_utf8_lossy(&onward), String::from_utf8_lossy(&all), "pieces of {size}");
        assert_eq!(requests.passed(), 6);
    }
}

#[test]
fn nothing_of_a_head_goes_on_before_it_is_whole() {
    let (mut requests, mut onward) = (requests(), Vec::new());
    let (last, first) = GET.as_bytes().split_last().unwrap();
    requests.push(first, &mut onward, &|| true).unwrap();
    assert!(onward.is_empty());
    requests.push(&[*last], &mut onward, &|| true).unwrap();
    assert_eq!(onward, GET.as_bytes());
}

#[test]
fn a_request_that_names_another_host_is_refused() {
    for host in [
        "evil.example",
        "deb.debian.org.evil.example",
        "evil.deb.debian.org",
        "deb.debian.org:81",
        "deb.debian.org:080x",
        "deb.debian.org:",
        "deb.debian.org@evil.example",
        "evil.example, deb.debian.org",
        "deb.debian.org evil.example",
        "169.254.169.254",
        "[::1]",
        "",
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(refused(&head), Some(RequestError::Host), "{host}");
    }
    assert_eq!(refused("GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"), Some(RequestError::Host));
    assert_eq!(refused("GET / HTTP/1.0\r\n\r\n"), Some(RequestError::Host));
    assert_eq!(with("Host: evil.example\r\n"), Some(RequestError::Host));
    assert_eq!(with("hOST: deb.debian.org\r\n"), Some(RequestError::Host));
    for target in ["http://evil.example/", "http://deb.debian.org/", "evil.example:443", "*", "//"] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n");
        assert_eq!(refused(&head), if target == "//" { None } else { Some(RequestError::Host) });
    }
    assert_eq!(refused("OPTIONS * HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n"), None);
}

#[test]
fn a_later_request_of_the_connection_is_held_to_the_host_as_the_first_is() {
    for first in [GET, POST, CHUNKED] {
        let evil = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        let (onward, error) = push([first, evil, GET].concat().as_bytes());
        assert_eq!(String::from_utf8_lossy(&onward), first);
        assert_eq!(error, Some(RequestError::Host));
    }
}

#[test]
fn after_a_refusal_nothing_goes_on() {
    let (mut requests, mut onward) = (requests(), Vec::new());
    assert!(requests.push(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", &mut onward, &|| true).is_err());
    assert_eq!(requests.push(GET.as_bytes(), &mut onward, &|| true), Err(RequestError::Host));
    assert!(onward.is_empty());
}

#[test]
fn a_length_that_can_be_read_in_two_ways_is_refused() {
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551617\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        assert_eq!(with(lines), Some(RequestError::Length), "{lines:?}");
    }
    let old = "POST / HTTP/1.0\r\nHost: deb.debian.org\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(old), Some(RequestError::Length));
}

#[test]
fn chunks_that_can_be_read_in_two_ways_are_refused() {
    let head = "POST / HTTP/1.1\r\nHost: deb.debian.org\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "5;a=b\r\nhello\r\n",
        "5\nhello\r\n",
        "5 \r\nhello\r\n",
        " 5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "\r\nhello\r\n",
        "5\r\nhelloX\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "0\r\nHost: evil.example\r\n\r\n",
        "0\r\n\n",
        "0\r\nG",
        "1000000000000000\r\n",
    ] {
        let (_, error) = push([head, body].concat().as_bytes());
        assert_eq!(error, Some(RequestError::Length), "{body:?}");
    }
}

#[test]
fn tunnels_and_upgrades_are_refused() {
    let connect = "CONNECT evil.example:443 HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n";
    assert_eq!(refused(connect), Some(RequestError::Tunnel));
    assert_eq!(with("Connection: Upgrade\r\nUpgrade: h2c\r\n"), Some(RequestError::Tunnel));
    assert_eq!(with("upgrade: websocket\r\n"), Some(RequestError::Tunnel));
    assert_eq!(with("HTTP2-Settings: AAMAAABkAAQAAP__\r\n"), Some(RequestError::Tunnel));
}

#[test]
fn what_is_not_http_1_as_it_is_written_is_refused() {
    for text in [
        "\r\nGET / HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n",
        "GET / HTTP/1.1\nHost: deb.debian.org\n\n",
        "GET / HTTP/1.1\r\nHost: deb.debian.org\n\r\n",
        "GET / HTTP/1.1\r\nHost: deb.debian.org\r\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : deb.debian.org\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: deb.debian.org\r\n folded: x\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: evil.example\r\nHost: deb.debian.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX\r\nHost: deb.debian.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX\0: y\r\nHost: deb.debian.org\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\0b\r\nHost: deb.debian.org\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: deb.debian.org\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /\r\n\r\n",
        "get / HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n",
        "\x16\x03\x01",
        "SSH-2.0-x\r\n\r\n",
    ] {
        assert_eq!(refused(text), Some(RequestError::NotHttp), "{text:?}");
    }
}

#[test]
fn a_head_without_end_is_given_up() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n", "a".repeat(MAX_HEAD));
    assert_eq!(refused(&long), Some(RequestError::TooLarge));
    let fits = format!("GET /{} HTTP/1.1\r\nHost: deb.debian.org\r\n\r\n", "a".repeat(MAX_HEAD - 100));
    assert_eq!(refused(&fits), None);
    assert_eq!(with(&"X-A: b\r\n".repeat(MAX_FIELDS)), Some(RequestError::TooLarge));
    assert_eq!(with(&"X-A: b\r\n".repeat(MAX_FIELDS - 2)), None);
}

proptest! {
    /// What goes on, read again, is let through again: nothing that goes on could be refused.
    #[test]
    fn what_goes_on_is_in_order_and_a_prefix_of_what_came(
        parts in prop::collection::vec(prop::sample::select(vec![
            GET, POST, CHUNKED, "GET / HTTP/1.1\r\n", "Host: deb.debian.org\r\n", "Host: evil.example\r\n",
            "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "\r\n", "\n", "3\r\nabc\r\n", "0\r\n\r\n", "abc",
        ]), 0..8),
        size in 1usize..40,
    ) {
        let all = parts.concat().into_bytes();
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        let one = requests().push(&all, &mut whole, &|| true).err();
        let mut in_pieces = requests();
        let other = all.chunks(size).find_map(|piece| in_pieces.push(piece, &mut pieces, &|| true).err());
        prop_assert_eq!(one, other);
        prop_assert_eq!(&whole, &pieces);
        prop_assert!(all.starts_with(&whole));
        let evil = whole.windows(18).any(|window| window == b"Host: evil.example");
        prop_assert!(!evil, "another host goes on");
    }
}

#[test]
fn a_request_that_the_budget_has_no_room_for_does_not_go_on() {
    let left = std::cell::Cell::new(2);
    let may = || {
        let some = left.get() > 0;
        left.set(left.get() - i32::from(some));
        some
    };
    let (mut requests, mut onward) = (requests(), Vec::new());
    let refused = requests.push(GET.repeat(3).as_bytes(), &mut onward, &may);
    assert_eq!((refused, requests.passed()), (Err(RequestError::Spent), 2));
    assert_eq!(onward, GET.repeat(2).as_bytes());
    let evil = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    left.set(1);
    assert!(super::Requests::new(requests.host.clone(), 80).push(evil, &mut onward, &may).is_err());
    assert_eq!(left.get(), 1, "one that is refused takes nothing");
}
