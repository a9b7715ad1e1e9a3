//! Calls that are part of a caller's trace: read as one tree, with the connections and audit lines of their executions.

use std::path::Path;

use rekindle::config::tokens::{Quota, Scope};
use rekindle_api::client::{Client, Connection, Target};
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};
use serde_json::Value;
use tonic::Request;

use crate::network;
use crate::place::{Place, Wishes, millis, output, refused, shell, token_with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A client whose calls are part of the trace, and of a step of it.
async fn part_of(place: &Place, step: &str, token: Option<&str>) -> Client {
    let connection = Connection::open(&Target::Socket(place.socket.clone())).await.expect("connected");
    connection.part_of(Some(PARENT), Some(step)).expect("can be sent").client(token).expect("a client")
}

async fn traced(
    client: &mut Client,
    sandbox: &str,
    trace: &str,
) -> Result<v1::SandboxTimelineResponse, Status> {
    let request = v1::SandboxTimelineRequest { sandbox: sandbox.into(), trace: trace.into() };
    client.sandboxes.timeline(request).await.map(tonic::Response::into_inner)
}

async fn connections(client: &mut Client, sandbox: &str) -> Vec<v1::Connection> {
    let request = v1::ConnectionsRequest { sandbox: sandbox.into(), follow: false };
    let mut told = client.network.connections(request).await.expect("told").into_inner();
    let mut all = Vec::new();
    while let Some(connection) = told.message().await.expect("no failure") {
        all.push(connection);
    }
    all
}

/// Lines of the audit log with a method.
fn lines(place: &Place, method: &str) -> Vec<Value> {
    place.audit().into_iter().filter(|line| line["method"] == method).collect()
}

#[tokio::test]
async fn the_calls_of_a_trace_are_one_tree_over_all_its_sandboxes() {
    let place = network::place().await;
    let mut plain = place.client().await;
    let (one, _) = place.sandbox_with(&mut plain, network::under("build")).await;
    let (other, _) = place.sandbox_with(&mut plain, network::under("build")).await;
    let (mut plan, mut act) = (part_of(&place, "plan", None).await, part_of(&place, "act", None).await);
    output(&mut plan, &one, "connect echo.example.com 7 hello").await;
    output(&mut plain, &one, "connect echo.example.com 7 untold").await;
    output(&mut act, &other, "connect evil.example 443 x").await;
    output(&mut plan, &other, "echo again").await;
    let stat = v1::StatFileRequest { sandbox: one.clone(), path: "nothing".into(), ..Default::default() };
    plan.files.stat(stat).await.expect_err("there is none");

    let told = traced(&mut plain, "", TRACE).await.expect("told");
    let entries: Vec<_> =
        told.entries.iter().map(|entry| (&*entry.step, &*entry.call, &*entry.sandbox)).collect();
    assert_eq!(
        entries,
        [
            ("plan", "execute", &*one),
            ("act", "execute", &*other),
            ("plan", "execute", &*other),
            ("plan", "stat", &*one)
        ]
    );
    assert!(told.entries.iter().all(|entry| entry.trace == TRACE && entry.span == "00f067aa0ba902b7"));
    let [plan_sums, act_sums] = &told.steps[..] else { panic!("two steps: {:?}", told.steps) };
    assert_eq!((&*plan_sums.step, &*act_sums.step), ("plan", "act"));
    assert_eq!((plan_sums.calls, plan_sums.executions, plan_sums.failures), (3, 2, 1));
    assert_eq!((plan_sums.connections, plan_sums.network_up, plan_sums.network_down), (1, 6, 6));
    assert_eq!((act_sums.calls, act_sums.executions, act_sums.failures), (1, 1, 1));
    assert_eq!((act_sums.connections, act_sums.connections_denied), (1, 1));
    let took = |sums: &v1::TimelineStep| sums.duration.expect("it took a time");
    assert!(took(plan_sums).seconds > 0 || took(plan_sums).nanos > 0);

    // One sandbox of it; and the whole past of one, in which the rest is too.
    let of_other = traced(&mut plain, &other, TRACE).await.expect("told");
    assert_eq!(of_other.entries.len(), 2);
    let whole = traced(&mut plain, &one, "").await.expect("told");
    let steps: Vec<_> = whole.entries.iter().map(|entry| &*entry.step).collect();
    assert_eq!((steps, whole.steps.len()), (vec!["", "plan", "", "plan"], 0));

    // Connections are of the call that began their execution.
    let told = connections(&mut plain, &one).await;
    let told: Vec<_> = told.iter().map(|connection| (&*connection.trace, &*connection.step)).collect();
    assert_eq!(told, [(TRACE, "plan"), ("", "")]);
    let audit = lines(&place, "connection");
    assert_eq!((&audit[0]["trace"], &audit[0]["step"]), (&TRACE.into(), &"plan".into()));
    assert_eq!((audit[1].get("trace"), audit[1].get("step")), (None, None));
    assert_eq!((&audit[2]["trace"], &audit[2]["step"]), (&TRACE.into(), &"act".into()));
    let audit = lines(&place, "Sandboxes/Execute");
    assert_eq!((&audit[0]["trace"], &audit[0]["step"]), (&TRACE.into(), &"plan".into()));
    assert_eq!(audit[1].get("trace"), None);

    // What has ended is still told of.
    plain.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: other }).await.expect("destroyed");
    assert_eq!(traced(&mut plain, "", TRACE).await.expect("told").entries.len(), 4);
}

#[tokio::test]
async fn a_sandbox_is_in_its_trace_from_its_beginning_to_its_end() {
    let place = network::place().await;
    let mut plain = place.client().await;
    let (mut plan, mut act) = (part_of(&place, "plan", None).await, part_of(&place, "act", None).await);
    let nothing = v1::CreateSandboxRequest { template: "nothing".into(), ..Default::default() };
    plan.sandboxes.create(nothing).await.expect_err("there is no such template");
    let (id, _) = place.sandbox_with(&mut plan, network::under("build")).await;
    output(&mut act, &id, "echo hi").await;
    let sandbox = || id.clone();
    act.sandboxes
        .pause(v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() })
        .await
        .expect("paused");
    plain
        .sandboxes
        .resume(v1::ResumeSandboxRequest { sandbox: sandbox() })
        .await
        .expect("runs, for nobody's trace");
    act.sandboxes
        .pause(v1::PauseSandboxRequest { sandbox: sandbox(), without_memory: true })
        .await
        .expect("paused");
    plan.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: sandbox() }).await.expect("booted");
    let too_long = v1::SetSandboxTimeoutRequest {
        sandbox: sandbox(),
        ttl: millis(u64::MAX / 1000),
        ..Default::default()
    };
    plan.sandboxes.set_timeout(too_long).await.expect_err("too long");
    let none = v1::UpdateNetworkRequest { sandbox: sandbox(), network: "none".into() };
    act.network.update(none).await.expect("changed");
    plan.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: sandbox() }).await.expect("destroyed");
    plan.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: sandbox() }).await.expect("again");

    let told = traced(&mut plain, "", TRACE).await.expect("told");
    let entries: Vec<_> = told.entries.iter().map(|entry| (&*entry.step, &*entry.call)).collect();
    assert_eq!(
        entries,
        [
            ("plan", "create"),
            ("act", "execute"),
            ("act", "pause"),
            ("act", "pause_without_memory"),
            ("plan", "resume"),
            ("plan", "set_timeout"),
            ("act", "update_network"),
            ("plan", "destroy"),
        ]
    );
    let whole = |entry: &v1::TimelineEntry| {
        entry.sandbox == id && entry.trace == TRACE && entry.span == "00f067aa0ba902b7"
    };
    assert!(told.entries.iter().all(whole), "{told:?}");
    let made = &told.entries[0];
    let took = |entry: &v1::TimelineEntry| entry.duration.expect("it took a time");
    assert_eq!(made.subject, "tiny", "what it was made from");
    assert!(took(made).seconds > 0 || took(made).nanos > 0);
    let sums: Vec<_> =
        told.steps.iter().map(|sums| (&*sums.step, sums.calls, sums.executions, sums.failures)).collect();
    assert_eq!(sums, [("plan", 4, 0, 1), ("act", 4, 1, 0)], "one was refused");
    let audit = lines(&place, "Sandboxes/Create");
    assert_eq!((&audit[0]["trace"], &audit[0]["decision"]), (&TRACE.into(), &"rejected".into()));
}

#[tokio::test]
async fn what_resumes_a_sandbox_by_its_use_is_what_the_resume_is_part_of() {
    let place = Place::new().await;
    let mut client = part_of(&place, "use", None).await;
    let asked =
        v1::CreateSandboxRequest { on_timeout: v1::OnTimeout::PauseUntilUsed.into(), ..Default::default() };
    let (id, _) = place.sandbox_with(&mut place.client().await, asked).await;
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    place.client().await.sandboxes.pause(pause).await.expect("paused");
    output(&mut client, &id, "echo hi").await;
    let told = traced(&mut client, "", TRACE).await.expect("told").entries;
    let calls: Vec<_> = told.iter().map(|entry| (&*entry.step, &*entry.call)).collect();
    assert_eq!(calls, [("use", "resume"), ("use", "execute")]);
}

#[tokio::test]
async fn a_trace_shows_what_its_reader_may_see_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let all = [Scope::Create, Scope::Exec, Scope::Files];
    let make =
        |id: &str, tenant: &str, file: &Path| token_with(file, id, tenant, &all, Quota::default(), &[]);
    let (acme, rival) = (make("acme", "acme", &file), make("rival", "rival", &file));
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    for secret in [&acme, &rival] {
        let mut client = part_of(&place, "plan", Some(secret)).await;
        let (id, _) = place.sandbox(&mut client).await;
        output(&mut client, &id, "echo hi").await;
    }
    let mut operator = place.client().await;
    assert_eq!(
        traced(&mut operator, "", TRACE).await.expect("told").entries.len(),
        4,
        "who runs the host looks"
    );
    let mut client = place.client_with(Some(&acme)).await;
    let told = traced(&mut client, "", TRACE).await.expect("told");
    assert_eq!((told.entries.len(), told.steps[0].calls), (2, 2), "an id that is known opens nothing");
    let others = traced(&mut operator, "", TRACE).await.expect("told").entries;
    let rivals = others.iter().find(|entry| entry.sandbox != told.entries[0].sandbox).expect("the other's");
    let refusal = traced(&mut client, &rivals.sandbox, TRACE).await.expect_err("another's");
    assert_eq!(refusal.code(), Code::NotFound);

    // Whoever runs the host may end it; what that is part of is not its tenant's to read.
    let sandbox = told.entries[0].sandbox.clone();
    let mut host = part_of(&place, "cleaning", None).await;
    host.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: sandbox.clone() }).await.expect("destroyed");
    let all = traced(&mut client, &sandbox, "").await.expect("told").entries;
    let last = all.last().expect("calls");
    assert_eq!((&*last.call, &*last.trace, &*last.step), ("destroy", "", ""));
}

#[tokio::test]
async fn a_trace_that_is_none_is_ignored_and_a_step_that_is_none_is_refused() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let with = |name: &'static str, values: &[&str]| {
        let mut request = Request::new(shell(&id, "echo hi"));
        for value in values {
            request.metadata_mut().append(name, value.parse().expect("a value"));
        }
        request
    };
    for ignored in [&["nonsense"][..], &["00-0-0-00"], &[PARENT, PARENT]] {
        client.sandboxes.execute(with("traceparent", ignored)).await.expect("executed");
    }
    let long = "x".repeat(65);
    for wrong in [&[""][..], &["a\tb"], &[" "], &[&long], &["one", "two"]] {
        let refusal = client.sandboxes.execute(with("rekindle-step", wrong)).await;
        let message = refusal.as_ref().expect_err("refused").message().to_owned();
        refused(refusal, Code::InvalidArgument, ErrorReason::InvalidRequest);
        assert!(message.contains("rekindle-step"), "{message}");
    }
    client.sandboxes.execute(with("rekindle-step", &["plan"])).await.expect("a step needs no trace");
    let entries = traced(&mut client, &id, "").await.expect("told").entries;
    let steps: Vec<_> = entries.iter().map(|entry| (&*entry.trace, &*entry.step)).collect();
    assert_eq!(steps[1..], [("", ""), ("", ""), ("", ""), ("", "plan")], "what was refused ran nothing");
    for wrong in ["x", "0", &"0".repeat(32), PARENT] {
        let refusal = traced(&mut client, "", wrong).await.expect_err("no trace");
        assert_eq!(refusal.code(), Code::InvalidArgument, "{wrong}");
    }
    assert_eq!(traced(&mut client, "", TRACE).await.expect("nothing").entries, []);
}

#[tokio::test]
async fn code_in_a_context_is_of_the_step_that_runs_it() {
    let place = network::place().await;
    let mut plain = place.client().await;
    let (id, _) = place.sandbox_with(&mut plain, network::under("build")).await;
    for (step, word) in [("plan", "ab"), ("act", "abcd")] {
        let mut client = part_of(&place, step, None).await;
        let code = format!("connect echo.example.com 7 {word}");
        let request = v1::RunCodeRequest { sandbox: id.clone(), code, ..Default::default() };
        let mut events = client.interpreter.run(request).await.expect("a run").into_inner();
        while events.message().await.expect("no failure").is_some() {}
    }
    let told = connections(&mut plain, &id).await;
    let steps: Vec<_> = told.iter().map(|connection| &*connection.step).collect();
    assert_eq!(steps, ["plan", "act"], "one program, two steps");
    let told = traced(&mut plain, "", TRACE).await.expect("told");
    let sums: Vec<_> =
        told.steps.iter().map(|sums| (&*sums.step, sums.calls, sums.executions, sums.network_up)).collect();
    assert_eq!(sums, [("plan", 1, 1, 3), ("act", 1, 1, 5)]);
}
