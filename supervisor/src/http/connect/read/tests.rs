//! Bodies that are whole, cut short, too long, and no JSON.

use axum::http::Request;
use futures::stream;
use serde_json::{Value, json};

use super::*;

fn parts(kind: &str) -> Parts {
    Request::builder().header(CONTENT_TYPE, kind).body(()).expect("a request").into_parts().0
}

fn body(pieces: Vec<Result<Vec<u8>, std::io::Error>>) -> Body {
    Body::from_stream(stream::iter(pieces))
}

fn framed(json: &str) -> Vec<u8> {
    [&[0][..], &(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()
}

#[tokio::test]
async fn a_message_is_read_whole_or_not_at_all() {
    let read = async |pieces| message::<Value>(&parts("application/json; charset=utf-8"), body(pieces)).await;
    assert_eq!(read(vec![Ok(b"{\"a\"".into()), Ok(b":1}".into())]).await, Ok(json!({"a": 1})));
    assert_eq!(read(vec![]).await, Ok(json!({})));
    for wrong in [&b"{"[..], b"{}x", b"\xff", b"nul"] {
        let error = read(vec![Ok(wrong.into())]).await.expect_err("refused");
        assert_eq!(error.code, Code::InvalidArgument, "{wrong:?}");
    }
    let broken = vec![Ok(b"{}".into()), Err(std::io::Error::other("gone"))];
    assert_eq!(read(broken).await.expect_err("cut short").code, Code::InvalidArgument);
    let large = (0..5).map(|_| Ok(vec![b' '; 1 << 20])).collect();
    assert_eq!(read(large).await.expect_err("too long").code, Code::ResourceExhausted);
    assert!(message::<Value>(&parts("text/plain"), Body::empty()).await.is_err());
    assert!(message::<Value>(&parts("application/connect+json"), Body::empty()).await.is_err());
}

#[tokio::test]
async fn compression_and_other_versions_are_refused() {
    let with = |name: &str, value: &str| {
        let mut parts = parts("application/json");
        parts.headers.insert(
            axum::http::HeaderName::from_bytes(name.as_bytes()).expect("a name"),
            value.parse().expect("a value"),
        );
        parts
    };
    let read = async |parts: Parts| message::<Value>(&parts, Body::from("{}")).await;
    assert!(read(with("connect-protocol-version", "1")).await.is_ok());
    assert!(read(with("connect-protocol-version", "2")).await.is_err());
    assert!(read(with("content-encoding", "identity")).await.is_ok());
    assert_eq!(read(with("content-encoding", "gzip")).await.expect_err("no").code, Code::Unimplemented);
}

#[tokio::test]
async fn a_stream_gives_its_messages_and_tells_when_it_broke_off() {
    let all = [framed("{\"a\":1}"), framed("{}")].concat();
    let of = |pieces| Messages::of(&parts("application/connect+json"), body(pieces)).expect("a stream");
    let mut messages = of(all.chunks(3).map(|piece| Ok(piece.to_vec())).collect());
    assert_eq!(messages.next().await, Ok(Some(json!({"a": 1}))));
    assert_eq!(messages.next().await, Ok(Some(json!({}))));
    assert_eq!(messages.next::<Value>().await, Ok(None));
    let mut cut = of(vec![Ok(all[..all.len() - 1].to_vec())]);
    assert!(cut.next::<Value>().await.is_ok());
    assert!(cut.next::<Value>().await.is_err(), "the end of the body is not the end of the message");
    let mut broken = of(vec![Err(std::io::Error::other("gone"))]);
    assert!(broken.next::<Value>().await.is_err());
}

#[tokio::test]
async fn where_one_message_is_expected_it_is_one() {
    let only = async |bytes: Vec<u8>| {
        let messages = Messages::of(&parts("application/connect+json"), body(vec![Ok(bytes)]));
        messages.expect("a stream").only::<Value>().await
    };
    assert_eq!(only(framed("{\"a\":1}")).await, Ok(json!({"a": 1})));
    assert!(only(Vec::new()).await.is_err());
    assert!(only([framed("{}"), framed("{}")].concat()).await.is_err());
    assert!(only([framed("{}"), vec![0]].concat()).await.is_err(), "trailing bytes");
}
