//! Who gets in, and what is written down of it.

use http::StatusCode;
use rekindle::config::tokens::Scope;
use rekindle::http::FrontOptions;
use rekindle::service::CallRate;
use serde_json::json;

use crate::place::{Place, Wishes, decisions, e2b_form};

#[tokio::test]
async fn a_token_is_a_key_in_either_form_and_nothing_else_is() {
    let place = Place::new().await;
    for key in [place.key.clone(), e2b_form(&place.key)] {
        assert_eq!(place.get_as(&key, "/v2/sandboxes").await.status, StatusCode::OK);
    }
    let mut wrong = place.key.clone();
    wrong.pop();
    for key in [wrong.as_str(), "", "e2b_", "e2b_00ff", "e2b_7", &e2b_form(&wrong), &"a".repeat(5000)] {
        let answer = place.get_as(key, "/v2/sandboxes").await;
        let message = answer.refused(401).to_owned();
        assert!(!message.contains("expired") && !message.contains("unknown"), "{message}");
    }
    place.ask("GET", "/v2/sandboxes", &[], "").await.refused(401);
    // Also what is not there, and also a body that is announced.
    place.ask("POST", "/volumes", &[("content-length", "99999999999")], "").await.refused(401);
    let lines = decisions(&place, "E2B/List");
    let counted =
        |reason: &str| lines.iter().filter(|line| *line == &("denied".into(), reason.into())).count();
    assert_eq!((counted("no_token"), counted("unknown_token"), counted("malformed_token")), (1, 3, 4));
    assert_eq!(decisions(&place, "unknown"), [("denied".to_owned(), "no_token".to_owned())]);
}

#[tokio::test]
async fn another_tenants_sandbox_is_as_unknown_as_one_that_never_was() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let other = place.token("other", "umbrella", &[Scope::Create, Scope::Exec, Scope::Files]).await;
    let path = format!("/sandboxes/{id}");
    let never = place.get_as(&other, "/sandboxes/sb-000000000000000000000000").await;
    let theirs = place.get_as(&other, &path).await;
    assert_eq!((theirs.refused(404), &theirs.body), (never.refused(404), &never.body));
    for verb in ["timeout", "connect", "pause"] {
        place.post_as(&other, &format!("{path}/{verb}"), &json!({"timeout": 5})).await.refused(404);
    }
    place.ask("DELETE", &path, &[("x-api-key", &other)], "").await.refused(404);
    assert_eq!(place.get_as(&other, "/v2/sandboxes").await.body, json!([]));
    assert_eq!(place.get(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_without_the_scope_makes_nothing_and_a_removed_one_sees_nothing() {
    let place = Place::new().await;
    let weak = place.token("weak", "acme", &[Scope::Exec]).await;
    let refused = place.post_as(&weak, "/sandboxes", &json!({"templateID": "base"})).await;
    assert!(refused.refused(403).contains("create"), "{refused:?}");
    assert_eq!(decisions(&place, "E2B/Create"), [("denied".to_owned(), "missing_scope".to_owned())]);
    place.remove_token("weak", &weak).await;
    place.get_as(&weak, "/v2/sandboxes").await.refused(401);
}

#[tokio::test]
async fn a_call_leaves_a_line_that_names_its_sandbox() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    place.delete(&format!("/sandboxes/{id}")).await;
    for method in ["E2B/Create", "E2B/Kill"] {
        let lines = place.audit();
        let line = lines.iter().find(|line| line["method"] == method).expect("a line");
        assert_eq!((&line["sandbox"], &line["token"]), (&json!(id), &json!("good")), "{line}");
        assert_eq!((&line["tenant"], &line["decision"]), (&json!("acme"), &json!("allowed")), "{line}");
    }
}

#[tokio::test]
async fn who_calls_too_often_is_told_when_to_come_back() {
    let place =
        Place::with(Wishes { service: |config| config.call_rate = CallRate::new(1, 2), ..Wishes::default() })
            .await;
    let mut refused = 0;
    for _ in 0..5 {
        let answer = place.get("/v2/sandboxes").await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            answer.refused(429);
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
            assert_eq!(answer.header("should-retry"), None);
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn a_host_and_headers_that_name_different_sandboxes_reach_neither() {
    let place = Place::with(Wishes {
        front: FrontOptions { domain: Some("boxes.test".into()), ..FrontOptions::default() },
        ..Wishes::default()
    })
    .await;
    let (one, made) = place.sandbox(json!({})).await;
    assert_eq!(made["domain"], "boxes.test");
    let (two, _) = place.sandbox(json!({})).await;
    let named = format!("49983-{one}.boxes.test");
    for (header, value) in [("e2b-sandbox-id", two.as_str()), ("e2b-sandbox-port", "8000")] {
        let answer = place.ask("GET", "/health", &[("host", &named), (header, value)], "").await;
        assert!(answer.refused(400).contains("different"), "{answer:?}");
    }
    for (header, value) in [("e2b-sandbox-port", "99999"), ("host", "a b")] {
        place.ask("GET", "/health", &[("e2b-sandbox-id", &one), (header, value)], "").await.refused(400);
    }
    // What has no port in front is the control plane.
    let headers = [("host", "api.boxes.test"), ("x-api-key", place.key.as_str())];
    assert_eq!(place.ask("GET", "/v2/sandboxes", &headers, "").await.status, StatusCode::OK);
    // A port that nothing answers at.
    let closed = format!("8000-{one}.boxes.test");
    let answer = place.ask("GET", "/", &[("host", &closed)], "").await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
}
