//! Sandboxes that are part of a caller's trace from their beginning to their end, whichever way the caller comes.

use http::StatusCode;
use serde_json::{Value, json};

use crate::api;
use crate::place::{Answer, Place};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Asks as E2B's clients do, with what that is part of.
async fn ask(place: &Place, method: &str, path: &str, step: &str, body: &Value) -> Answer {
    let headers = [
        ("x-api-key", &*place.key),
        ("content-type", "application/json"),
        ("traceparent", PARENT),
        ("rekindle-step", step),
    ];
    let answer = place.ask(method, path, &headers, body.to_string()).await;
    assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
    answer
}

#[tokio::test]
async fn a_sandbox_is_in_its_trace_from_create_to_destroy_by_both_fronts() {
    let place = Place::new().await;
    let made =
        ask(&place, "POST", "/sandboxes", "begin", &json!({"templateID": "base", "timeout": 300})).await;
    let theirs = made.body["sandboxID"].as_str().expect("an id");
    let path = format!("/sandboxes/{theirs}");
    ask(&place, "POST", &format!("{path}/pause"), "rest", &json!({})).await;
    ask(&place, "POST", &format!("{path}/connect"), "rest", &json!({"timeout": 60})).await;
    ask(&place, "DELETE", &path, "end", &json!({})).await;

    let headers = [("traceparent", PARENT), ("rekindle-step", "json")];
    let call = async |method: &str, message: Value| {
        let answer = api::call_with(&place, method, message.to_string(), &headers).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}: {answer:?}");
        answer.body
    };
    let ours = call("Sandboxes/Create", json!({})).await["id"].clone();
    for method in ["Sandboxes/Pause", "Sandboxes/Resume", "Sandboxes/Destroy"] {
        call(method, json!({"sandbox": ours})).await;
    }

    let told = call("Sandboxes/Timeline", json!({"trace": TRACE})).await;
    let entries = told["entries"].as_array().expect("calls").iter();
    let calls: Vec<Value> =
        entries.map(|entry| json!([entry["step"], entry["call"], entry["sandbox"]])).collect();
    assert_eq!(
        calls,
        [
            json!(["begin", "create", theirs]),
            json!(["rest", "pause", theirs]),
            json!(["rest", "set_timeout", theirs]),
            json!(["rest", "resume", theirs]),
            json!(["end", "destroy", theirs]),
            json!(["json", "create", ours]),
            json!(["json", "pause", ours]),
            json!(["json", "resume", ours]),
            json!(["json", "destroy", ours]),
        ]
    );
}
