//! The table of errors: every reason of the API is brought about here, or it is said why it cannot be.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rekindle::config::tokens::{Quota, Scope};
use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::pool::PoolConfig;
use rekindle::service::{CallRate, ServiceConfig};
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_host::MEMORY_MIB;
use rekindle_protocol::wire::ErrorCode;
use rekindle_test_support::wait::until;

use crate::place::{Place, Wishes, detail, millis, refused, shell, token};

/// Reasons that no call in this binary can bring about.
const ELSEWHERE: [(ErrorReason, &str); 2] = [
    (ErrorReason::Unspecified, "never sent"),
    (ErrorReason::OutOfMemory, "needs a real control group: a machine killed by the host's kernel"),
];

/// What the API's description says about codes.
const PROTO: &str = include_str!("../../../api/proto/rekindle/v1/rekindle.proto");

#[derive(Default)]
struct Table {
    seen: BTreeMap<i32, Vec<Status>>,
}

impl Table {
    #[track_caller]
    fn take<T: std::fmt::Debug>(&mut self, result: Result<T, Status>, reason: ErrorReason, retryable: bool) {
        let status = result.expect_err("it must fail");
        let detail = detail(&status);
        assert_eq!(detail.reason(), reason, "{status:?}");
        assert_eq!(detail.retryable, retryable, "{status:?}");
        assert!(!status.message().is_empty() && !status.message().contains("hint:"), "{status:?}");
        assert!(documented(reason).contains(&name(status.code())), "{status:?} is not the documented code");
        self.seen.entry(reason.into()).or_default().push(status);
    }
}

/// The comment of a reason.
fn documented(reason: ErrorReason) -> String {
    let (before, _) = PROTO.split_once(&format!("  {} = ", reason.as_str_name())).expect("it is described");
    let comment = before.lines().rev().take_while(|line| line.trim().starts_with("//"));
    comment.collect::<Vec<_>>().join("\n")
}

/// A code as the description spells it.
fn name(code: Code) -> String {
    let mut name = String::new();
    for (at, letter) in format!("{code:?}").chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Requests that make no sense, by themselves or here.
async fn requests(client: &mut Client, id: &str, table: &mut Table) {
    use ErrorReason::{InvalidRequest, LimitExceeded, NotFound, UnknownSandbox, UnknownTemplate};
    let limits = |milli_cpus, memory_bytes, pids| v1::CreateSandboxRequest {
        limits: Some(v1::Limits { milli_cpus, memory_bytes, pids }),
        ..Default::default()
    };
    let metadata = |key: &str, value: &str| v1::CreateSandboxRequest {
        metadata: [(key.to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    let env = |key: &str, value: &str| v1::CreateSandboxRequest {
        env: [(key.to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    let named = |template: &str| v1::CreateSandboxRequest { template: template.into(), ..Default::default() };
    let pairs = (0..33).map(|number| (number.to_string(), String::new())).collect();
    for (request, reason) in [
        (named("nobody"), UnknownTemplate),
        (named("../../etc"), InvalidRequest),
        (v1::CreateSandboxRequest { network: "nobody".into(), ..Default::default() }, InvalidRequest),
        (limits(2001, 0, 0), LimitExceeded),
        (limits(49, 0, 0), InvalidRequest),
        (limits(0, (MEMORY_MIB << 20) + 1, 0), LimitExceeded),
        (limits(0, 1, 0), InvalidRequest),
        (limits(0, 0, 32_769), LimitExceeded),
        (v1::CreateSandboxRequest { ttl: millis(u64::MAX), ..Default::default() }, LimitExceeded),
        (v1::CreateSandboxRequest { idle_timeout: millis(u64::MAX), ..Default::default() }, LimitExceeded),
        (metadata("", "x"), InvalidRequest),
        (metadata("a\nb", "x"), InvalidRequest),
        (metadata("a", &"x".repeat(1025)), LimitExceeded),
        (v1::CreateSandboxRequest { metadata: pairs, ..Default::default() }, LimitExceeded),
        (env("", "x"), InvalidRequest),
        (env("A=B", "x"), InvalidRequest),
        (env("A", "x\0"), InvalidRequest),
        (env("A", &"x".repeat(200_000)), LimitExceeded),
    ] {
        let shown = format!("{request:?}").chars().take(200).collect::<String>();
        let status = client.sandboxes.create(request).await.expect_err(&shown);
        assert_eq!(detail(&status).reason(), reason, "{shown}");
        table.take(Err::<(), _>(status), reason, false);
    }
    let execute = |change: fn(&mut v1::ExecuteRequest)| {
        let mut request = shell(id, "true");
        change(&mut request);
        request
    };
    for (request, reason) in [
        (execute(|request| request.memory_bytes = 1), InvalidRequest),
        (execute(|request| request.memory_bytes = (MEMORY_MIB << 20) + 1), LimitExceeded),
        (execute(|request| request.timeout = millis(u64::MAX)), LimitExceeded),
        (execute(|request| request.output_limit = Some(u32::MAX)), LimitExceeded),
        (execute(|request| request.output_limit = Some(1)), InvalidRequest),
        (execute(|request| request.cwd = "x".repeat(10_000)), LimitExceeded),
        (execute(|request| request.sandbox = String::new()), UnknownSandbox),
        (execute(|request| request.sandbox = "../../etc".into()), UnknownSandbox),
        (execute(|request| request.sandbox = format!("sb-{}", "0".repeat(24))), UnknownSandbox),
    ] {
        table.take(client.sandboxes.execute(request).await, reason, false);
    }
    let missing = v1::StatFileRequest { sandbox: id.into(), path: "missing".into(), user: String::new() };
    table.take(client.files.stat(missing).await, NotFound, false);
}

/// What the guest refuses.
async fn refusals(client: &mut Client, id: &str, guest: &rekindle_fake_guest::Guest, table: &mut Table) {
    for (code, reason, retryable) in [
        (ErrorCode::NotFound, ErrorReason::NotFound, false),
        (ErrorCode::PermissionDenied, ErrorReason::PermissionDenied, false),
        (ErrorCode::AlreadyExists, ErrorReason::AlreadyExists, false),
        (ErrorCode::NotADirectory, ErrorReason::WrongFileKind, false),
        (ErrorCode::IsADirectory, ErrorReason::WrongFileKind, false),
        (ErrorCode::NotEmpty, ErrorReason::WrongFileKind, false),
        (ErrorCode::NoSpace, ErrorReason::NoSpace, false),
        (ErrorCode::ChecksumMismatch, ErrorReason::Corrupted, true),
        (ErrorCode::Busy, ErrorReason::Busy, true),
        (ErrorCode::SpawnFailed, ErrorReason::SpawnFailed, false),
        (ErrorCode::TooLarge, ErrorReason::LimitExceeded, false),
        (ErrorCode::InvalidArgument, ErrorReason::InvalidRequest, false),
        (ErrorCode::Internal, ErrorReason::Internal, false),
        (ErrorCode::GateClosed, ErrorReason::Internal, false),
    ] {
        guest.refuse_next(code);
        table.take(client.sandboxes.execute(shell(id, "true")).await, reason, retryable);
    }
    // What was refused did the sandbox no harm.
    assert_eq!(crate::place::output(client, id, "echo fine").await, "fine\n");
}

/// What a full host, a failing one and a stopped one say.
async fn hosts(table: &mut Table) {
    let pool = PoolConfig { max_queued: 1, ..PoolConfig::new(MEMORY_MIB, 1_000_000) };
    let place = Place::with(Wishes { pool, ..Wishes::default() }).await;
    let mut client = place.client().await;
    place.host.engine.inject(Operation::Prespawn, Fault::Fail("/secret/path of the host".into()));
    let failed = client.sandboxes.create(v1::CreateSandboxRequest::default()).await;
    let text = format!("{:?}", failed.as_ref().expect_err("the monitor does not start"));
    assert!(!text.contains("secret"), "{text}");
    table.take(failed, ErrorReason::StartFailed, true);
    place.sandbox(&mut client).await;
    let create = |wait| v1::CreateSandboxRequest { queue_timeout: millis(wait), ..Default::default() };
    table.take(client.sandboxes.create(create(50)).await, ErrorReason::HostFull, true);
    let waiting = tokio::spawn({
        let mut client = client.clone();
        let request = create(60_000);
        async move { client.sandboxes.create(request).await }
    });
    until("queued", || place.service.overview().pool.queued == 1).await;
    table.take(client.sandboxes.create(create(60_000)).await, ErrorReason::QueueFull, true);
    for reason in [ErrorReason::HostFull, ErrorReason::QueueFull] {
        let told = detail(&table.seen[&i32::from(reason)][0]);
        assert!(told.retry_after.is_some(), "{told:?}");
    }
    waiting.abort();
    let pool = PoolConfig { disk_reserve_mib: u64::MAX, ..PoolConfig::new(MEMORY_MIB, 1_000_000) };
    let crammed = Place::with(Wishes { pool, ..Wishes::default() }).await;
    let crammed = crammed.client().await.sandboxes.create(create(0)).await;
    table.take(crammed, ErrorReason::HostDiskFull, true);
    place.service.shut_down(Duration::ZERO).await;
    table.take(client.sandboxes.create(create(0)).await, ErrorReason::ShuttingDown, true);
}

/// What callers may not do.
async fn callers(dir: &Path, table: &mut Table) {
    let file = dir.join("tokens.toml");
    let looker = token(&file, "looker", "a", &[Scope::Files], Quota::default());
    let quota = Quota { max_sandboxes: Some(0), ..Quota::default() };
    let poor = token(&file, "poor", "b", &[Scope::Create], quota);
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let mut looker = place.client_with(Some(&looker)).await;
    table.take(
        looker.sandboxes.create(v1::CreateSandboxRequest::default()).await,
        ErrorReason::MissingScope,
        false,
    );
    table.take(looker.host.status(v1::HostStatusRequest {}).await, ErrorReason::MissingScope, false);
    let network = v1::CreateSandboxRequest { network: "any".into(), ..Default::default() };
    table.take(
        place.client_with(Some(&poor)).await.sandboxes.create(network).await,
        ErrorReason::NetworkForbidden,
        false,
    );
    let mut poor = place.client_with(Some(&poor)).await;
    table.take(
        poor.sandboxes.create(v1::CreateSandboxRequest::default()).await,
        ErrorReason::QuotaExceeded,
        true,
    );
    let file = dir.join("often.toml");
    let often = token(&file, "often", "c", &[Scope::Files], Quota::default());
    let service = |config: &mut ServiceConfig| config.call_rate = CallRate::new(1, 1);
    let slow = Place::with(Wishes { tokens: Some(file), service, ..Wishes::default() }).await;
    let mut often = slow.client_with(Some(&often)).await;
    let list = || v1::ListSandboxesRequest::default();
    let (first, second) = (often.sandboxes.list(list()).await, often.sandboxes.list(list()).await);
    first.expect("the first one is let in");
    let told = detail(second.as_ref().expect_err("the second is one too many"));
    assert!(told.retry_after.is_some() && !told.hint.is_empty(), "{told:?}");
    table.take(second, ErrorReason::RateLimited, true);
    let mut stranger = place.client_with(Some("rk_nobody_x")).await;
    table.take(
        stranger.sandboxes.list(v1::ListSandboxesRequest::default()).await,
        ErrorReason::Unauthenticated,
        false,
    );
}

/// What happens in and to a sandbox.
async fn lives(place: &Place, client: &mut Client, table: &mut Table) {
    let (id, _) = place.sandbox(client).await;
    let keyed = |line: &str| v1::ExecuteRequest { idempotency_key: "k".into(), ..shell(&id, line) };
    client.sandboxes.execute(keyed("echo a")).await.expect("ran");
    table.take(client.sandboxes.execute(keyed("echo b")).await, ErrorReason::KeyReused, false);
    place.host.engine.inject(Operation::Pause, Fault::Fail("no".into()));
    let pause = || v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    table.take(client.sandboxes.pause(pause()).await, ErrorReason::Internal, false);
    client.sandboxes.pause(pause()).await.expect("paused");
    table.take(client.sandboxes.execute(shell(&id, "true")).await, ErrorReason::SandboxPaused, false);
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() }).await.expect("destroyed");
    table.take(client.sandboxes.execute(shell(&id, "true")).await, ErrorReason::SandboxEnded, false);

    for (machine, reason) in [(true, ErrorReason::VmLost), (false, ErrorReason::AgentLost)] {
        let (id, guest) = place.sandbox(client).await;
        let call = tokio::spawn({
            let (mut client, request) = (client.clone(), shell(&id, "sleep 600000"));
            async move { client.sandboxes.execute(request).await }
        });
        until("running", || guest.running() == 1).await;
        table.take(
            client.sandboxes.pause(v1::PauseSandboxRequest { sandbox: id, ..Default::default() }).await,
            ErrorReason::Busy,
            true,
        );
        if machine {
            place.machine().crash();
        } else {
            guest.crash();
        }
        table.take(call.await.expect("no panic"), reason, false);
    }

    let mut raw = crate::raw::connect(&place.socket).await;
    let (answer, mut body) =
        crate::raw::call(&mut raw, "/rekindle.v1.Sandboxes/Nothing", Default::default()).await;
    let _ = body.send_data(crate::raw::framed(&[]), true);
    let unknown: Result<(), Status> = Err(crate::raw::status(answer).await);
    table.take(unknown, ErrorReason::UnknownMethod, false);

    let (id, _) = place.sandbox(client).await;
    let mut late = rekindle_api::Request::new(shell(&id, "sleep 600000"));
    late.metadata_mut().insert("grpc-timeout", "100m".parse().expect("a header"));
    let late = crate::raw::client(&place.socket).await.execute(late).await;
    table.take(late, ErrorReason::Deadline, false);

    let watch = v1::WatchSandboxesRequest { sandbox: id.clone(), ..Default::default() };
    let mut watch =
        place.service.watch(&rekindle::service::Caller::local(), query(watch)).await.expect("watches");
    for _ in 0..1100 {
        let ttl = Some(Duration::from_secs(60));
        place
            .service
            .set_timeout(&rekindle::service::Caller::local(), &id, ttl, None, None)
            .expect("changed");
    }
    // Over the wire in `watch.rs`; the reason is the service's.
    let lagged = watch.next().await.expect_err("it was too slow");
    assert_eq!(lagged.word(), "watch_lagged");
    table.seen.entry(ErrorReason::WatchLagged.into()).or_default();
}

fn query(request: v1::WatchSandboxesRequest) -> rekindle::service::WatchQuery {
    rekindle::service::WatchQuery { sandbox: request.sandbox, ..Default::default() }
}

/// A template whose sandboxes have no root.
async fn rootless(table: &mut Table) {
    let place = Place::with(Wishes { root: false, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let request = v1::ExecuteRequest { user: "root".into(), ..shell(&id, "true") };
    table.take(client.sandboxes.execute(request).await, ErrorReason::RootForbidden, false);
}

/// A sandbox that has had its only turn.
async fn spent(place: &Place, client: &mut Client, table: &mut Table) {
    let once = v1::CreateSandboxRequest { max_turns: 1, ..Default::default() };
    let (id, _) = place.sandbox_with(client, once).await;
    client.sandboxes.execute(shell(&id, "true")).await.expect("a turn");
    table.take(client.sandboxes.execute(shell(&id, "true")).await, ErrorReason::TurnsSpent, false);
}

#[tokio::test]
async fn every_reason_is_brought_about_with_its_code_and_its_detail() {
    let mut table = Table::default();
    let dir = tempfile::tempdir().expect("a directory");
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    requests(&mut client, &id, &mut table).await;
    refusals(&mut client, &id, &guest, &mut table).await;
    lives(&place, &mut client, &mut table).await;
    hosts(&mut table).await;
    rootless(&mut table).await;
    spent(&place, &mut client, &mut table).await;
    callers(dir.path(), &mut table).await;
    let reasons = (0..1000).filter_map(|number| ErrorReason::try_from(number).ok());
    for reason in reasons {
        let seen = table.seen.contains_key(&i32::from(reason));
        let elsewhere = ELSEWHERE.iter().any(|(other, _)| *other == reason);
        assert!(seen != elsewhere, "{} is brought about: {seen}", reason.as_str_name());
    }
    // Where there is something to do, it is said.
    for reason in
        [ErrorReason::HostFull, ErrorReason::QuotaExceeded, ErrorReason::MissingScope, ErrorReason::Busy]
    {
        assert!(!detail(&table.seen[&i32::from(reason)][0]).hint.is_empty());
    }
}

#[tokio::test]
async fn a_template_nobody_has_is_named_in_the_message() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let request = v1::CreateSandboxRequest { template: "nobody".into(), ..Default::default() };
    let refusal = client.sandboxes.create(request).await;
    assert!(refusal.as_ref().expect_err("unknown").message().contains("nobody"));
    let detail = refused(refusal, Code::NotFound, ErrorReason::UnknownTemplate);
    assert!(detail.hint.contains("ListTemplates"), "{detail:?}");
}
