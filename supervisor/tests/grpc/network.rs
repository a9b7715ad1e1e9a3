//! Which network a sandbox gets, who may choose it, and what is told of its connections. The guests are fake; gate, policy
//! and servers are real.

use std::net::SocketAddr;
use std::path::Path;

use rekindle::config::tokens::{Quota, Scope};
use rekindle::network::Egress;
use rekindle_api::client::Client;
use rekindle_api::v1::connection::State;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_guest::Guest;
use rekindle_protocol::wire::egress_verdict::Verdict;
use rekindle_test_support::echo::echo;
use rekindle_test_support::wait::{in_time, until, until_answer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::detached::{start, started};
use crate::place::{Place, Wishes, output, refused, shell, token_with};

/// Policies whose names lead to one server.
fn network(server: SocketAddr) -> Egress {
    let policies = toml::from_str(
        "[build]\nmode = \"allow\"\nallow = [{ host = \"echo.example.com\", ports = [7], protocol = \"tcp\" }]\n\
         [frugal]\nmode = \"full\"\nbudget = { connections = 2 }\n",
    );
    let hosts = [("echo.example.com".to_owned(), server)].into();
    Egress::new(&policies.expect("policies"), &hosts).expect("a network")
}

pub async fn place() -> Place {
    Place::with(Wishes { network: network(echo().await), ..Wishes::default() }).await
}

pub fn under(network: &str) -> v1::CreateSandboxRequest {
    v1::CreateSandboxRequest { network: network.into(), ..Default::default() }
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

async fn update(client: &mut Client, sandbox: &str, network: &str) -> Result<v1::Sandbox, Status> {
    let request = v1::UpdateNetworkRequest { sandbox: sandbox.into(), network: network.into() };
    client.network.update(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_sandbox_has_the_network_policy_that_its_caller_names_and_none_otherwise() {
    let place = place().await;
    let mut client = place.client().await;
    for (asked, shown) in [("build", "build"), ("", "none"), ("none", "none")] {
        let created = client.sandboxes.create(under(asked)).await.expect("created").into_inner();
        assert_eq!(created.network, shown);
        let got = client.sandboxes.get(v1::GetSandboxRequest { sandbox: created.id }).await;
        assert_eq!(got.expect("found").into_inner().network, shown);
    }
    let machines = place.host.guests.all().len();
    let refusal = client.sandboxes.create(under("other")).await;
    refused(refusal, Code::InvalidArgument, ErrorReason::InvalidRequest);
    assert_eq!(place.host.guests.all().len(), machines, "a machine was started for it");
}

#[tokio::test]
async fn a_token_chooses_among_the_policies_it_names_and_has_none_otherwise() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = |id: &str, networks: &[&str]| {
        token_with(Path::new(&file), id, "acme", &[Scope::Create], Quota::default(), networks)
    };
    let (plain, build, all) = (secret("plain", &[]), secret("build", &["build"]), secret("all", &["*"]));
    let wishes = Wishes { network: network(echo().await), tokens: Some(file.clone()), ..Wishes::default() };
    let place = Place::with(wishes).await;
    for (secret, asked, may) in [
        (&plain, "none", true),
        (&plain, "build", false),
        (&plain, "frugal", false),
        (&build, "build", true),
        (&build, "frugal", false),
        // That it does not exist is nobody's business who may not choose it.
        (&build, "other", false),
        (&all, "build", true),
        (&all, "frugal", true),
    ] {
        let mut client = place.client_with(Some(secret)).await;
        let created = client.sandboxes.create(under(asked)).await;
        assert_eq!(created.is_ok(), may, "{asked}");
        // What may be chosen is told, and nothing else.
        let told = client.host.list_templates(v1::ListTemplatesRequest {}).await.expect("told").into_inner();
        let told = told.networks.iter().any(|policy| policy.name == asked);
        assert_eq!(told, may && asked != "none", "{asked}");
        if !may {
            let detail = refused(created, Code::PermissionDenied, ErrorReason::NetworkForbidden);
            assert!(detail.hint.contains("--network"), "{detail:?}");
        }
        // What may not be chosen at first may not be chosen later.
        let sandbox = client.sandboxes.create(under("")).await.expect("created").into_inner().id;
        assert_eq!(update(&mut client, &sandbox, asked).await.is_ok(), may, "{asked}");
    }
    let forbidden = place.audit().into_iter().filter(|line| line["reason"] == "network_forbidden");
    assert_eq!(forbidden.count(), 8, "every refusal is in the log");
}

#[tokio::test]
async fn an_answer_tells_what_the_execution_did_on_the_network_and_what_was_denied() {
    let place = place().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, under("build")).await;
    let quiet = client.sandboxes.execute(shell(&id, "echo hi")).await.expect("executed").into_inner();
    assert_eq!(quiet.network, None);
    let line = "connect echo.example.com 7 hello; connect evil.example 443 x";
    let done = client.sandboxes.execute(shell(&id, line)).await.expect("executed").into_inner();
    assert_eq!(done.stdout.expect("an output").text, "hello\n");
    assert_eq!(done.stderr.expect("an output").text, "denied: not_allowed\n");
    let network = done.network.expect("it did something");
    assert_eq!((network.connections, network.denied, network.failed), (2, 1, 0));
    assert_eq!((network.bytes_up, network.bytes_down), (6, 6));
    assert_eq!((network.denials[0].host.as_str(), network.denials[0].port), ("evil.example", 443));
    let diagnosis = done.diagnosis.expect("a diagnosis");
    assert_eq!((diagnosis.kind.as_str(), diagnosis.subject.as_str()), ("network_denied", "evil.example"));
    // The same in the sandbox's usage, its timeline, its connections and the audit log.
    let got = client.sandboxes.get(v1::GetSandboxRequest { sandbox: id.clone() }).await.expect("found");
    let usage = got.into_inner().usage.expect("usage");
    assert_eq!((usage.connections, usage.connections_denied), (2, 1));
    assert_eq!((usage.network_bytes_up, usage.network_bytes_down), (6, 6));
    let timeline = client
        .sandboxes
        .timeline(v1::SandboxTimelineRequest { sandbox: id.clone(), ..Default::default() })
        .await;
    let entries = timeline.expect("a timeline").into_inner().entries;
    assert_eq!((entries[2].connections, entries[2].connections_denied), (2, 1));
    let told = connections(&mut client, &id).await;
    assert_eq!(told.len(), 2);
    assert!(
        told.iter().all(|connection| connection.execution == done.execution && connection.policy == "build")
    );
    assert!(matches!(&told[0].state, Some(State::Closed(closed)) if closed.rule == "tcp echo.example.com:7"));
    assert!(matches!(&told[1].state, Some(State::Denied(denial)) if denial.reason == "not_allowed"));
    let lines: Vec<_> = place.audit().into_iter().filter(|line| line["method"] == "connection").collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!((&line["tenant"], &line["sandbox"]), (&"local".into(), &id.as_str().into()));
        assert_eq!(line["guest_says_execution"], done.execution.as_str());
    }
    assert_eq!((&lines[1]["decision"], &lines[1]["host"]), (&"denied".into(), &"evil.example".into()));
}

#[tokio::test]
async fn executions_at_once_are_told_apart() {
    let place = place().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, under("build")).await;
    let run = async |mine: &str, others: usize| {
        let mut client = client.clone();
        let line = format!("connect echo.example.com 7 {mine}; ").repeat(others);
        client.sandboxes.execute(shell(&id, &line)).await.expect("executed").into_inner()
    };
    let (one, other) = tokio::join!(run("a", 40), run("bcd", 25));
    let sums = |done: &v1::ExecuteResponse| {
        let network = done.network.clone().expect("it did something");
        (network.connections, network.bytes_up, network.bytes_down)
    };
    assert_eq!(sums(&one), (40, 80, 80));
    assert_eq!(sums(&other), (25, 100, 100));
    for connection in connections(&mut client, &id).await {
        let own = if connection.execution == one.execution { 2 } else { 4 };
        assert_eq!(connection.bytes_up, own, "{connection:?}");
    }
}

#[tokio::test]
async fn a_policy_that_is_changed_counts_at_once_and_is_told() {
    let place = place().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, under("build")).await;
    assert_eq!(output(&mut client, &id, "connect echo.example.com 7 before").await, "before\n");
    let mut watch = client.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("a watch");
    let watch = watch.get_mut();
    let locked = update(&mut client, &id, "none").await.expect("changed");
    assert_eq!(locked.network, "none");
    let event = in_time("an event", watch.message()).await.expect("told");
    assert_eq!(event.expect("an event").kind(), v1::SandboxEventKind::NetworkChanged);
    let after = client.sandboxes.execute(shell(&id, "connect echo.example.com 7 after")).await;
    let after = after.expect("executed").into_inner();
    assert_eq!(after.stderr.expect("an output").text, "denied: network_off\n");
    let refusal = client
        .network
        .update(v1::UpdateNetworkRequest { sandbox: id.clone(), network: "other".into() })
        .await;
    refused(refusal, Code::InvalidArgument, ErrorReason::InvalidRequest);
    // Another one, with a budget of two connections in all, which are spent.
    update(&mut client, &id, "frugal").await.expect("changed");
    let spent = client.sandboxes.execute(shell(&id, "connect echo.example.com 7 more")).await;
    assert_eq!(
        spent.expect("executed").into_inner().stderr.expect("an output").text,
        "denied: budget_spent\n"
    );
}

#[tokio::test]
async fn who_follows_hears_of_connections_as_they_come_and_of_the_end() {
    let place = place().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, under("build")).await;
    let request = v1::ConnectionsRequest { sandbox: id.clone(), follow: true };
    let mut told = client.network.connections(request).await.expect("told").into_inner();
    assert_eq!(output(&mut client, &id, "connect echo.example.com 7 x").await, "x\n");
    let mut next = async || in_time("a word", told.message()).await.expect("no failure");
    let first = next().await.expect("a connection");
    // It may have ended before it was looked at.
    if matches!(first.state, Some(State::Open(_))) {
        let last = next().await.expect("its end");
        assert_eq!((last.number, last.bytes_up, last.bytes_down), (first.number, 2, 2));
        assert!(matches!(last.state, Some(State::Closed(_))));
    }
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() }).await.expect("destroyed");
    assert_eq!(next().await, None);
    let usage = client.host.usage(v1::HostUsageRequest::default()).await.expect("sums").into_inner();
    assert_eq!((usage.tenants[0].connections, usage.tenants[0].network_bytes_down), (1, 2));
    let refusal = client.network.connections(v1::ConnectionsRequest { sandbox: id, follow: true }).await;
    assert_eq!(refusal.expect_err("it has ended").code(), Code::FailedPrecondition);
}

/// Connects a guest's program with the server behind the name, on which something has been said.
async fn connect(
    guest: &Guest,
    server: &TcpListener,
) -> (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + use<>, TcpStream) {
    let (mut program, verdict) = guest.dial("echo.example.com", 7, 2, b"hello").await;
    assert!(matches!(verdict, Verdict::Accepted(_)), "{verdict:?}");
    let (mut served, _) = in_time("a connection", server.accept()).await.expect("accepted");
    let mut said = [0; 5];
    in_time("a word", served.read_exact(&mut said)).await.expect("heard");
    served.write_all(&said).await.expect("answered");
    in_time("an answer", program.read_exact(&mut said)).await.expect("heard");
    (program, served)
}

/// Nothing more comes.
async fn is_cut(who: &str, mut stream: impl tokio::io::AsyncRead + Unpin) {
    let read = in_time(who, stream.read(&mut [0])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{who} hears {read:?}");
}

#[tokio::test]
async fn a_pause_cuts_connections_and_programs_dial_again_once_it_is_over() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let network = network(server.local_addr().expect("an address"));
    let place = Place::with(Wishes { network, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox_with(&mut client, under("build")).await;
    started(&mut client, start(&id, "sleep 600000")).await;
    let (program, served) = connect(&guest, &server).await;
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    client.sandboxes.pause(pause.clone()).await.expect("a detached program keeps nobody from pausing");
    is_cut("the server", served).await;
    is_cut("the program", program).await;
    // What is on its way while it stands still reaches nobody.
    let late = tokio::spawn({
        let guest = guest.clone();
        async move { guest.dial("echo.example.com", 7, 2, b"hello").await.1 }
    });
    assert!(in_time("a reset", late).await.is_err(), "a connection was decided about");
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    let (again, served) = connect(&guest, &server).await;
    client.sandboxes.pause(pause).await.expect("paused");
    // However soon it goes on, what was open before is cut.
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    is_cut("the server", served).await;
    is_cut("the program", again).await;
    let closed = |connection: &v1::Connection| matches!(&connection.state, Some(State::Closed(closed)) if closed.denial.is_none());
    let told = until_answer("both are closed", async || {
        Some(connections(&mut client.clone(), &id).await).filter(|told| told.iter().all(closed))
    })
    .await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|connection| (connection.bytes_up, connection.bytes_down) == (5, 5)), "{told:?}");
}

#[tokio::test]
async fn a_pause_that_keeps_the_disk_alone_cuts_connections_and_the_next_machine_dials_again() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let network = network(server.local_addr().expect("an address"));
    let place = Place::with(Wishes { network, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox_with(&mut client, under("build")).await;
    let (program, served) = connect(&guest, &server).await;
    // With its memory first, and then without it: it runs once more in between.
    for without_memory in [false, true] {
        let pause = v1::PauseSandboxRequest { sandbox: id.clone(), without_memory };
        client.sandboxes.pause(pause).await.expect("paused");
    }
    is_cut("the server", served).await;
    is_cut("the program", program).await;
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("booted");
    let guest = place.host.guests.all().pop().expect("another guest");
    let (program, served) = connect(&guest, &server).await;
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), without_memory: true };
    client.sandboxes.pause(pause).await.expect("paused");
    is_cut("the server", served).await;
    is_cut("the program", program).await;
    until("all is told", || place.audit().iter().filter(|line| line["method"] == "connection").count() == 2)
        .await;
}
