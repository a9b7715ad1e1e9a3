//! What the SDKs ask of sandboxes, verb by verb.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use rekindle::config::tokens::{Quota, Scope};
use rekindle::http::FrontOptions;
use rekindle::network::{Egress, Gateway};
use rekindle::service::{Caller, ServiceConfig};
use rekindle_test_support::wait::until_answer;
use serde_json::{Value, json};

use crate::place::{Place, TEMPLATE, Wishes, fields};

/// The sandboxes of an answer, in its order.
fn ids(body: &Value) -> Vec<String> {
    let list = body.as_array().expect("a list");
    list.iter().map(|one| one["sandboxID"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_sandbox_is_made_looked_at_and_ended() {
    let place = Place::new().await;
    let (id, made) = place.sandbox(json!({"metadata": {"k": "v"}, "envVars": {"A": "b"}})).await;
    for needed in ["sandboxID", "templateID", "clientID", "envdVersion", "envdAccessToken"] {
        assert!(made[needed].as_str().is_some_and(|text| !text.is_empty()), "{needed} in {made}");
    }
    let restored = place.host.guests.all().pop().expect("a guest").restores().pop().expect("a restore");
    assert!(restored.env.iter().any(|env| (&env.name[..], &env.value[..]) == (&b"A"[..], &b"b"[..])));

    let found = place.get(&format!("/sandboxes/{id}")).await;
    assert_eq!(found.status, StatusCode::OK);
    let needed = [
        "templateID",
        "sandboxID",
        "clientID",
        "startedAt",
        "endAt",
        "envdVersion",
        "cpuCount",
        "memoryMB",
        "diskSizeMB",
        "state",
    ];
    let there: BTreeSet<String> = fields(&found.body).into_keys().collect();
    assert!(needed.iter().all(|needed| there.contains(*needed)), "{there:?}");
    assert_eq!((&found.body["state"], &found.body["metadata"]), (&json!("running"), &json!({"k": "v"})));
    assert_eq!(found.body["envdAccessToken"], made["envdAccessToken"]);
    assert_eq!((&found.body["memoryMB"], &found.body["diskSizeMB"]), (&json!(64), &json!(16)));
    assert_eq!(found.body["allowInternetAccess"], false);

    let path = format!("/sandboxes/{id}");
    assert_eq!(place.delete(&path).await.status, StatusCode::NO_CONTENT);
    place.get(&path).await.refused(404);
    let again = place.delete(&path).await;
    again.refused(404);
    assert_eq!(again.header("should-retry"), Some("false"));
}

#[tokio::test]
async fn both_versions_of_create_connect_and_the_usual_names_of_templates_work() {
    let place = Place::with(Wishes {
        front: FrontOptions {
            aliases: [("mine".to_owned(), TEMPLATE.parse().expect("a name"))].into(),
            ..FrontOptions::default()
        },
        ..Wishes::default()
    })
    .await;
    for name in ["base", "code-interpreter-v1", "mine", TEMPLATE] {
        let made = place.post("/v2/sandboxes", &json!({"templateID": name, "timeout": 60})).await;
        assert_eq!(made.status, StatusCode::CREATED, "{name}: {made:?}");
        assert_eq!(made.body["templateID"], TEMPLATE);
        let found = place.get(&format!("/templates/aliases/{name}")).await;
        assert_eq!((found.status, &found.body["templateID"]), (StatusCode::OK, &json!(TEMPLATE)));
        let id = made.body["sandboxID"].as_str().expect("an id");
        for path in [format!("/sandboxes/{id}/connect"), format!("/v2/sandboxes/{id}/connect")] {
            let connected = place.post(&path, &json!({"timeout": 60})).await;
            assert_eq!(connected.status, StatusCode::OK, "{connected:?}");
            assert_eq!(connected.body["envdAccessToken"], made.body["envdAccessToken"]);
        }
    }
    place.post("/sandboxes", &json!({"templateID": "nothing"})).await.refused(404);
    place.get("/templates/aliases/nothing").await.refused(404);
    place.post("/sandboxes/sb-000000000000000000000000/connect", &json!({})).await.refused(404);
}

#[tokio::test]
async fn one_key_makes_one_sandbox() {
    let place = Place::new().await;
    let ask = async |key: &str, timeout: u64| {
        let headers = [("x-api-key", place.key.as_str()), ("idempotency-key", key)];
        let body = json!({"templateID": "base", "timeout": timeout}).to_string();
        place.ask("POST", "/v2/sandboxes", &headers, body).await
    };
    let long = "a".repeat(255);
    for key in ["k-1", &long] {
        let (first, second) = (ask(key, 60).await, ask(key, 60).await);
        assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
        assert_eq!(first.body["sandboxID"], second.body["sandboxID"], "{key}");
        let other = ask(key, 61).await;
        other.refused(409);
        assert_eq!(other.body["error_code"], "idempotency_key_reused");
    }
    ask(&"a".repeat(256), 60).await.refused(400);
    assert_eq!(ids(&place.get("/v2/sandboxes").await.body).len(), 2, "one for each key");
}

#[tokio::test]
async fn sandboxes_are_listed_by_metadata_state_template_start_and_order_page_by_page() {
    let place = Place::new().await;
    let mut made = Vec::new();
    for number in 0..3 {
        let metadata = json!({"metadata": {"n": number.to_string(), "a b": "c&d=e"}});
        made.push(place.sandbox(metadata).await.0);
    }
    let list = async |query: &str| {
        let answer = place.get(&format!("/v2/sandboxes?{query}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{query}: {answer:?}");
        answer
    };
    let newest_first: Vec<String> = made.iter().rev().cloned().collect();
    assert_eq!(ids(&list("").await.body), newest_first);
    assert_eq!(ids(&list("order=asc").await.body), made);
    // A pair is encoded, and the whole of them once more.
    assert_eq!(ids(&list("metadata=a%2Bb%3Dc%2526d%253De%26n%3D1").await.body), [made[1].clone()]);
    assert_eq!(ids(&list("metadata=n%3D7").await.body), [""; 0]);

    let paused = place.post(&format!("/sandboxes/{}/pause", made[0]), &json!({})).await;
    assert_eq!(paused.status, StatusCode::NO_CONTENT);
    assert_eq!(ids(&list("state=paused").await.body), [made[0].clone()]);
    assert_eq!(ids(&list("state=running").await.body), newest_first[..2]);
    assert_eq!(ids(&list("state=running%2Cpaused").await.body), newest_first);
    let first = list("state=paused").await.body[0].clone();
    assert_eq!(first["state"], "paused");

    assert_eq!(ids(&list("template=base").await.body), newest_first);
    assert_eq!(ids(&list("template=nothing").await.body), [""; 0]);
    let started = place.get(&format!("/sandboxes/{}", made[1])).await.body["startedAt"].clone();
    let started = started.as_str().expect("a time").replace('+', "%2B");
    assert_eq!(ids(&list(&format!("startedAfter={started}")).await.body), newest_first[..2]);

    for (order, all) in [("asc", &made), ("desc", &newest_first)] {
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(&format!("limit=1&order={order}&nextToken={token}")).await;
            seen.extend(ids(&page.body));
            match page.header("x-next-token") {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(&seen, all, "{order}");
    }
    for wrong in ["state=gone", "order=up", "limit=many", "nextToken=x", "startedAfter=then", "metadata=%25z"]
    {
        place.get(&format!("/v2/sandboxes?{wrong}")).await.refused(400);
    }
}

#[tokio::test]
async fn metrics_are_those_of_now_and_of_no_other_time() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    let path = format!("/sandboxes/{id}/metrics");
    let points = place.get(&path).await;
    let point = &points.body.as_array().expect("a list")[0];
    for needed in ["timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "diskUsed", "diskTotal"]
    {
        assert!(point[needed].is_number(), "{needed} in {point}");
    }
    assert_eq!(point["memTotal"], 64 << 20);
    let (used, total) =
        (point["diskUsed"].as_u64().expect("bytes"), point["diskTotal"].as_u64().expect("bytes"));
    assert!(used > 0 && used < total, "a file system has something on it: {point}");
    let at = point["timestampUnix"].as_u64().expect("a time");
    let between = async |start: u64, end: u64| {
        place.get(&format!("{path}?start={start}&end={end}")).await.body.as_array().map(Vec::len)
    };
    assert_eq!(between(at - 10, at + 3600).await, Some(1));
    assert_eq!(between(at - 3600, at - 1800).await, Some(0));
    place.get(&format!("{path}?start=then")).await.refused(400);
}

#[tokio::test]
async fn metrics_are_a_series_over_the_life_of_a_sandbox() {
    let often = |config: &mut ServiceConfig| config.usage_interval = Some(Duration::from_millis(20));
    let place = Place::with(Wishes { service: often, ..Wishes::default() }).await;
    let (id, _) = place.sandbox(json!({})).await;
    let series = async || place.get(&format!("/sandboxes/{id}/metrics")).await.body;
    let points = until_answer("some points", async || {
        Some(series().await).filter(|points| points.as_array().expect("a list").len() >= 4)
    })
    .await;
    let times: Vec<&str> = points.as_array().expect("a list").iter().map(text).collect();
    assert!(times.is_sorted(), "{times:?}");
    place.post(&format!("/sandboxes/{id}/pause"), &json!({})).await;
    let before = series().await.as_array().expect("a list").len();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = series().await.as_array().expect("a list").len();
    assert!(after <= before + 1, "one that stands still has nothing to tell: {before} {after}");
}

fn text(point: &Value) -> &str {
    point["timestamp"].as_str().expect("a time")
}

#[tokio::test]
async fn the_network_is_the_operators_policy_or_none() {
    let policies = "[web]\nmode = \"full\"\n";
    let policies = toml::from_str(policies).expect("policies");
    let place = Place::with(Wishes {
        network: Egress::new(&policies, &Default::default()).expect("policies"),
        networks: vec!["web".into()],
        front: FrontOptions { network: Some("web".into()), ..FrontOptions::default() },
        ..Wishes::default()
    })
    .await;
    let internet =
        async |id: &str| place.get(&format!("/sandboxes/{id}")).await.body["allowInternetAccess"].clone();
    let (open, _) = place.sandbox(json!({})).await;
    assert_eq!(internet(&open).await, true);
    let (closed, _) = place.sandbox(json!({"allow_internet_access": false})).await;
    assert_eq!(internet(&closed).await, false);
    let (denied, _) = place.sandbox(json!({"network": {"denyOut": ["0.0.0.0/0"]}})).await;
    assert_eq!(internet(&denied).await, false);

    let put = async |id: &str, body: Value| {
        let headers = [("x-api-key", place.key.as_str())];
        place.ask("PUT", &format!("/sandboxes/{id}/network"), &headers, body.to_string()).await
    };
    assert_eq!(put(&open, json!({"allow_internet_access": false})).await.status, StatusCode::NO_CONTENT);
    assert_eq!(internet(&open).await, false);
    put(&open, json!({"allowOut": ["example.org"]})).await.refused(501);
    assert_eq!(internet(&open).await, false, "what is refused changes nothing");

    // A token that allows no policy has no network, and its holder's sandboxes are made all the same.
    let other = place.token("other", "umbrella", &[Scope::Create]).await;
    let made = place.post_as(&other, "/sandboxes", &json!({"templateID": "base"})).await;
    let id = made.body["sandboxID"].as_str().expect("an id").to_owned();
    let found = place.get_as(&other, &format!("/sandboxes/{id}")).await;
    assert_eq!(found.body["allowInternetAccess"], false);
}

#[tokio::test]
async fn a_sandbox_has_what_the_operator_offers_of_the_gateway_and_the_token_allows() {
    let place = Place::with(Wishes {
        service: |config| {
            let service = |name: &str| {
                format!(
                    "[{name}]\nupstream = \"http://127.0.0.1:9\"\n\
                     operations = [{{ name = \"list\", method = \"GET\", path = \"/\" }}]\n"
                )
            };
            let services = toml::from_str(&(service("one") + &service("two"))).expect("services");
            config.gateway = Gateway::open(&services, None).expect("a gateway");
        },
        networks: vec!["one".into()],
        front: FrontOptions { gateway: vec!["one/list".into(), "two/*".into()], ..FrontOptions::default() },
        ..Wishes::default()
    })
    .await;
    let given = || {
        let restore = place.host.guests.all().pop().expect("a guest").restores().pop().expect("restored");
        restore.env.iter().any(|variable| variable.name == "REKINDLE_GATEWAY_TOKEN")
    };
    let (id, _) = place.sandbox(json!({})).await;
    assert!(given());
    let owner = Caller { tenant: "acme".into(), ..Caller::local() };
    let view = place.service.get(&owner, &id).await.expect("found");
    assert_eq!(view.gateway, ["one/list"]);
    // A token that allows none of it makes sandboxes all the same.
    let other = place.token("other", "umbrella", &[Scope::Create]).await;
    let made = place.post_as(&other, "/sandboxes", &json!({"templateID": "base"})).await;
    assert!(made.body["sandboxID"].is_string(), "{made:?}");
    assert!(!given());
}

#[tokio::test]
async fn what_is_not_there_says_so() {
    let place = Place::new().await;
    let (id, _) = place.sandbox(json!({})).await;
    for (method, path, word) in [
        ("POST", "/v3/templates".to_owned(), "template builds"),
        ("GET", "/templates".to_owned(), "template builds"),
        ("GET", "/volumes".to_owned(), "volumes"),
        ("POST", "/secrets".to_owned(), "secrets"),
        ("GET", "/snapshots".to_owned(), "snapshots"),
        ("POST", format!("/sandboxes/{id}/snapshots"), "snapshots"),
        ("POST", format!("/sandboxes/{id}/fork"), "forks"),
    ] {
        let answer = place.ask(method, &path, &[("x-api-key", &place.key)], "").await;
        assert!(answer.refused(501).contains(word), "{path}: {answer:?}");
        assert_eq!(answer.header("should-retry"), Some("false"));
    }
    place.get("/nothing").await.refused(404);
    // Of a sandbox that is gone, or somebody else's, that comes first.
    let other = place.token("other", "umbrella", &[Scope::Create]).await;
    place.post_as(&other, &format!("/sandboxes/{id}/fork"), &json!({})).await.refused(404);
    assert_eq!(place.delete(&format!("/sandboxes/{id}")).await.status, StatusCode::NO_CONTENT);
    for verb in ["snapshots", "fork"] {
        place.post(&format!("/sandboxes/{id}/{verb}"), &json!({})).await.refused(404);
    }
    for (field, value) in [
        ("volumeMounts", json!([{"name": "v", "path": "/v"}])),
        ("iam", json!({"tokens": {"aws": {}}})),
        ("network", json!({"allowOut": ["1.1.1.1"]})),
    ] {
        let body = json!({"templateID": "base", "autoPause": true, field: value});
        place.post("/sandboxes", &body).await.refused(501);
    }
    // A request cannot wake what has no memory.
    let body = json!({"templateID": "base", "autoPause": true, "autoPauseMemory": false, "autoResume": {"enabled": true}});
    place.post("/sandboxes", &body).await.refused(400);
    place.sandbox(json!({"autoPause": true, "autoPauseMemory": false})).await;
    // What asks for nothing is no reason to refuse.
    let harmless = json!({"volumeMounts": [], "iam": {}, "mcp": {}, "network": {}, "secure": false});
    place.sandbox(harmless).await;
    // The SDK itself starts the server of MCP in the sandbox, and says so when the image has none.
    place.sandbox(json!({"mcp": {"browserbase": {"apiKey": "k"}}})).await;
}

#[tokio::test]
async fn a_full_host_a_used_up_quota_and_nonsense_have_their_statuses() {
    let quota = Quota { max_sandboxes: Some(1), ..Quota::default() };
    let place = Place::with(Wishes {
        quota,
        machines: 1,
        service: |config| config.queue_wait = std::time::Duration::ZERO,
        ..Wishes::default()
    })
    .await;
    place.sandbox(json!({})).await;
    let body = json!({"templateID": "base"});
    let over = place.post("/sandboxes", &body).await;
    assert!(over.refused(429).contains("quota"), "{over:?}");
    assert_eq!(over.header("should-retry"), Some("false"), "asking again does not help");
    let other = place.token("other", "umbrella", &[Scope::Create]).await;
    let full = place.post_as(&other, "/sandboxes", &body).await;
    full.refused(503);
    let after: u64 = full.header("retry-after").expect("when").parse().expect("whole seconds");
    assert!(after >= 1, "{after}");
    assert_eq!(full.header("should-retry"), None);

    for wrong in
        [json!({}), json!({"templateID": 1}), json!([]), json!({"templateID": "base", "timeout": -1})]
    {
        place.post("/sandboxes", &wrong).await.refused(400);
    }
    let long = json!({"templateID": "base", "timeout": 1_000_000});
    assert!(place.post("/sandboxes", &long).await.refused(400).contains("at most"));
    let much = json!({"templateID": "base", "metadata": {"k": "v".repeat(2 << 20)}});
    place.post("/sandboxes", &much).await.refused(413);
}
