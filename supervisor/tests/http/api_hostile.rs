//! What callers send who mean no good, or do not know better, to our own API in JSON.

use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{call, call_with, sandbox, stream};
use crate::data_plane::{Ended, call_stream, framed, raw};
use crate::place::{Place, decisions};

fn reason(error: &Value) -> &str {
    let details = error["details"].as_array().expect("details");
    let info = details.iter().find(|detail| detail["type"] == "google.rpc.ErrorInfo").expect("a reason");
    info["debug"]["reason"].as_str().expect("a reason")
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_a_reason() {
    let place = Place::new().await;
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for wrong in [
        "{",
        "[]",
        "null null",
        "{} {}",
        r#"{"sandbox": 7}"#,
        r#"{"sandbox": "a", "sandboxx": "b"}"#,
        r#"{"sandbox": "\ud800"}"#,
        "\u{0}",
        &deep,
    ] {
        let answer = call_with(&place, "Sandboxes/Get", wrong.to_owned(), &[]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong:.40}: {answer:?}");
        assert_eq!(answer.body["code"], "invalid_argument", "{wrong:.40}");
        assert_eq!(reason(&answer.body), "INVALID_REQUEST");
        let message = answer.body["message"].as_str().expect("a message");
        assert!(message.starts_with("the message cannot be read: "), "{message}");
    }
    let garbled = ("rejected".to_owned(), "malformed_request".to_owned());
    assert_eq!(decisions(&place, "Sandboxes/Get"), vec![garbled; 9]);
    let wrong = json!({"sandbox": "x", "program": {"shell": "a", "code": {"source": "b"}}});
    assert_eq!(
        call(&place, "Sandboxes/Execute", &wrong).await.body["code"],
        "invalid_argument",
        "one of them"
    );
    for wrong in [json!("1 hour"), json!("-"), json!(90), json!("9999999999999999999s")] {
        let answer = call(&place, "Sandboxes/Create", &json!({"ttl": wrong})).await;
        assert_eq!(answer.body["code"], "invalid_argument", "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_not_held() {
    let place = Place::new().await;
    let large = json!({"sandbox": "x".repeat(5 << 20)}).to_string();
    let answer = call_with(&place, "Sandboxes/Get", large, &[]).await;
    assert_eq!(answer.body["code"], "invalid_argument");
    assert!(
        answer.body["message"].as_str().is_some_and(|text| text.contains("at most 4194304 bytes")),
        "{answer:?}"
    );
    // A length is believed to be too much before any of it is there.
    let bearer = format!("Bearer {}", place.key);
    let head = [&[0][..], &u32::MAX.to_be_bytes()].concat();
    let mut answer =
        call_stream(&place, "/rekindle.v1.Files/Upload", head, &[("authorization", &bearer)]).await;
    let Err(Ended::Whole(end)) = answer.next().await else { panic!("no end") };
    assert_eq!(end["error"]["code"], "invalid_argument");
    assert!(end["error"]["message"].as_str().is_some_and(|text| text.contains("exceeds the limit")), "{end}");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_whole_one() {
    let place = Place::new().await;
    let id = sandbox(&place).await;
    let bearer = format!("Bearer {}", place.key);
    let mut body = framed(&json!({"start": {"sandbox": id, "path": "YQ=="}}));
    body.extend(framed(&json!({"chunk": "YWJj"})));
    for cut in [body.len() - 1, body.len() - 9] {
        let body = body[..cut].to_vec();
        let mut answer =
            call_stream(&place, "/rekindle.v1.Files/Upload", body, &[("authorization", &bearer)]).await;
        let Err(Ended::Whole(end)) = answer.next().await else { panic!("no end") };
        assert_eq!(end["error"]["message"], "the stream ended within a message", "{end}");
        assert_eq!(end["error"]["code"], "invalid_argument", "{end}");
    }
    for wrong in [vec![1, 0, 0, 0, 0], vec![2, 0, 0, 0, 2, b'{', b'}'], b"{\"start\"".to_vec()] {
        let mut answer =
            call_stream(&place, "/rekindle.v1.Files/Upload", wrong, &[("authorization", &bearer)]).await;
        let Err(Ended::Whole(end)) = answer.next().await else { panic!("no end") };
        assert_eq!(end["error"]["code"], "invalid_argument", "{end}");
    }
    let mut answer = stream(&place, "Files/Upload", &[]).await;
    let Err(Ended::Whole(end)) = answer.next().await else { panic!("no end") };
    assert_eq!(end["error"]["code"], "invalid_argument", "{end}");
}

#[tokio::test]
async fn nobody_gets_in_without_a_token_or_is_told_what_there_is() {
    let place = Place::new().await;
    let json = ("content-type", "application/json");
    let unknown = ("authorization", "Bearer rk_good_nothing");
    for headers in [vec![json], vec![json, unknown], vec![json, ("authorization", "Basic eA==")]] {
        for method in ["Sandboxes/Create", "Sandboxes/Nothing", "Nothing/At"] {
            let answer = place.ask("POST", &format!("/rekindle.v1.{method}"), &headers, "{").await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
            assert_eq!(reason(&answer.body), "UNAUTHENTICATED");
        }
    }
    // On the headers, before anything of the body is there.
    let head = "POST /rekindle.v1.Sandboxes/Create HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 1000000000\r\n\r\n";
    let answer = raw(&place, head.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let mut answer = call_stream(&place, "/rekindle.v1.Files/Upload", framed(&json!({})), &[]).await;
    let Err(Ended::Whole(end)) = answer.next().await else { panic!("no end") };
    assert_eq!(end["error"]["code"], "unauthenticated");
}

#[tokio::test]
async fn what_there_is_not_is_said() {
    let place = Place::new().await;
    for method in ["Sandboxes/Nothing", "Nothing/At", "Sandboxes/", "Sandboxes/Create/More"] {
        let answer = call(&place, method, &json!({})).await;
        assert_eq!(answer.status, StatusCode::NOT_IMPLEMENTED, "{method}: {answer:?}");
        assert_eq!(reason(&answer.body), "UNKNOWN_METHOD");
    }
    let bearer = format!("Bearer {}", place.key);
    let own = ("authorization", bearer.as_str());
    let path = "/rekindle.v1.Sandboxes/List";
    assert_eq!(place.ask("GET", path, &[own], "").await.status, 405);
    for kind in ["application/connect+json", "application/proto", "text/plain", "application/grpc"] {
        let answer = place.ask("POST", path, &[own, ("content-type", kind)], "{}").await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    let answer = call_with(&place, "Sandboxes/List", "{}".into(), &[("content-encoding", "gzip")]).await;
    assert_eq!(answer.body["code"], "unimplemented");
    for wrong in ["soon", "-1", "99999999999"] {
        let answer = call_with(&place, "Sandboxes/List", "{}".into(), &[("connect-timeout-ms", wrong)]).await;
        assert_eq!(answer.body["code"], "invalid_argument");
    }
    let answer =
        call_with(&place, "Sandboxes/List", "{}".into(), &[("connect-timeout-ms", "9999999999")]).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}
