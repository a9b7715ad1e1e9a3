//! One service for long, with everything that callers do at once, and its machines killed at random: every call ends
//! with a result or a typed reason, and in the end the service holds what it held in the beginning.
//!
//! `REKINDLE_SOAK_MINUTES` says for how long, as `cargo xtask soak --minutes N` sets it; some seconds unless told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use futures::stream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_api::Status;
use rekindle_api::client::Client;
use rekindle_api::v1::upload_file_request::Part;
use rekindle_api::v1::{
    CreateSandboxRequest, DestroySandboxRequest, DownloadFileRequest, ErrorReason, ExecuteRequest,
    PauseSandboxRequest, Program, ResumeSandboxRequest, StartExecutionRequest, UploadFileEnd,
    UploadFileRequest, UploadFileStart,
};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::until_answer;
use tokio::task::JoinSet;

use crate::calls::{create, destroy, output, python, reason, shell, time};
use crate::held::{assert_same, settled};

/// Unless told.
const SHORT: Duration = Duration::from_secs(20);
/// Callers that keep the service busy.
const CALLERS: usize = 3;
const PARKED: u32 = 1;
const PRESPAWNED: u32 = 1;
const POOL: &str = "pool.templates={ minimal = { parked_low = 1, parked_high = 1, prespawned = 1 } }";
/// Records of ended sandboxes are kept on purpose; fewer of them than are made before the first look.
const RECORDS: &str = "sandbox.ended_kept=4";
/// Between two kills, at most.
const BETWEEN_KILLS: Duration = Duration::from_secs(8);
/// What machines that are killed, sandboxes whose time is over, and a pause while a call that was given up is still being
/// ended are told as.
const EXPECTED: [ErrorReason; 6] = [
    ErrorReason::Busy,
    ErrorReason::VmLost,
    ErrorReason::AgentLost,
    ErrorReason::SandboxEnded,
    ErrorReason::StartFailed,
    ErrorReason::SandboxPaused,
];

fn duration() -> Duration {
    let told = std::env::var("REKINDLE_SOAK_MINUTES").ok();
    told.map_or(SHORT, |minutes| {
        Duration::from_secs_f64(60.0 * minutes.parse::<f64>().expect("REKINDLE_SOAK_MINUTES is a number"))
    })
}

/// A number below `below`.
fn drawn(below: u32) -> u32 {
    getrandom::u32().expect("random bytes") % below
}

/// How often what happened.
type Counts = BTreeMap<String, u64>;

/// One caller, until the time is over. Whatever it is refused with has a reason that a killed machine explains.
async fn caller(client: Client, until: Instant) -> Counts {
    let mut counts = Counts::new();
    while Instant::now() < until {
        if let Err(status) = life(&client, &mut counts).await {
            let reason = reason(&status);
            assert!(EXPECTED.contains(&reason), "{status:?}");
            *counts.entry(format!("refused: {reason:?}")).or_default() += 1;
        }
    }
    counts
}

/// Makes a sandbox, uses it in ways that chance has chosen, and ends it or leaves it to its time.
async fn life(client: &Client, counts: &mut Counts) -> Result<(), Status> {
    let request = CreateSandboxRequest {
        queue_timeout: time(Duration::from_secs(300)),
        ttl: time(Duration::from_secs(60)),
        ..CreateSandboxRequest::default()
    };
    let mut client = client.clone();
    let id = client.sandboxes.create(request).await?.into_inner().id;
    let mut used = Ok(());
    for _ in 0..4 + drawn(4) {
        let (name, done) = step(&mut client, &id).await;
        used = done;
        if used.is_err() {
            break;
        }
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    // Some are left to their time, as a caller that has crashed leaves them.
    if drawn(10) > 0 {
        let gone = client.sandboxes.destroy(DestroySandboxRequest { sandbox: id }).await.map(drop);
        used = used.and(gone);
    }
    used
}

/// One of the things that callers do.
async fn step(client: &mut Client, id: &str) -> (&'static str, Result<(), Status>) {
    let sandbox = id.to_owned();
    match drawn(8) {
        0 => ("shell", run(client, id, shell("echo some > kept; cat kept"), None).await),
        1 => ("python", run(client, id, python("print(sum(range(1000)))"), None).await),
        2 => ("much output", run(client, id, shell("seq 100000"), None).await),
        3 => ("time limit", run(client, id, shell("sleep 600 & sleep 600"), Some(300)).await),
        4 => {
            let running = run(client, id, shell("sleep 600"), None);
            // Whoever goes away has ended it.
            let given_up = tokio::time::timeout(Duration::from_millis(drawn(500).into()), running).await;
            ("given up", given_up.unwrap_or(Ok(())))
        }
        5 => ("file", file(client, id).await),
        6 => {
            let paused = client.sandboxes.pause(PauseSandboxRequest { sandbox, ..Default::default() }).await;
            let resume = ResumeSandboxRequest { sandbox: id.to_owned() };
            let done = match paused {
                Ok(_) => client.sandboxes.resume(resume).await.map(drop),
                Err(status) => Err(status),
            };
            ("pause", done)
        }
        _ => {
            let program = Some(shell("while echo on; do sleep 0.1; done"));
            let request = Some(ExecuteRequest { sandbox, program, ..Default::default() });
            let request = StartExecutionRequest { request, ..Default::default() };
            ("detached", client.executions.start(request).await.map(drop))
        }
    }
}

async fn run(client: &Client, id: &str, program: Program, limit_millis: Option<u64>) -> Result<(), Status> {
    let request = ExecuteRequest {
        sandbox: id.to_owned(),
        program: Some(program),
        timeout: time(limit_millis.map_or(Duration::from_secs(300), Duration::from_millis)),
        ..ExecuteRequest::default()
    };
    client.sandboxes.clone().execute(request).await.map(drop)
}

/// Brings a file in and out again.
async fn file(client: &mut Client, id: &str) -> Result<(), Status> {
    let content = vec![u8::try_from(drawn(256)).unwrap_or(0); 300_000];
    let start = UploadFileStart { sandbox: id.to_owned(), path: "soak/file".into(), ..Default::default() };
    let parts =
        [Part::Start(start), Part::Chunk(content.clone().into()), Part::End(UploadFileEnd::default())];
    let parts = parts.map(|part| UploadFileRequest { part: Some(part) });
    client.files.upload(stream::iter(parts)).await?;
    let request =
        DownloadFileRequest { sandbox: id.to_owned(), path: "soak/file".into(), ..Default::default() };
    let mut pieces = client.files.download(request).await?.into_inner();
    let mut back = Vec::new();
    while let Some(piece) = pieces.message().await? {
        if let Some(rekindle_api::v1::download_file_response::Part::Chunk(chunk)) = piece.part {
            back.extend_from_slice(&chunk);
        }
    }
    assert!(back == content, "{} bytes came back, or others", back.len());
    Ok(())
}

/// Waits until sandboxes that were left have ended with their time.
async fn nobody_left(server: &Server) {
    until_answer("sandboxes end", async || (server.status().await.sandboxes == 0).then_some(())).await;
}

/// Kills a machine now and then, until the time is over. Says which there were, and how many were killed.
async fn killer(data: &Path, until: Instant) -> (BTreeSet<String>, u64) {
    let (mut seen, mut killed) = (BTreeSet::new(), 0);
    while Instant::now() < until {
        let wait = BETWEEN_KILLS.mul_f64(f64::from(drawn(1000)) / 1000.0);
        tokio::time::sleep(wait).await;
        seen.extend(leftovers::machines(data));
        let monitors: Vec<u32> = leftovers::monitors(data).into_iter().collect();
        let Some(count) = u32::try_from(monitors.len()).ok().filter(|count| *count > 0) else { continue };
        let victim = monitors[drawn(count) as usize].cast_signed();
        killed += u64::from(kill(Pid::from_raw(victim), Signal::SIGKILL).is_ok());
    }
    (seen, killed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_machines_are_killed_serves_on_and_holds_no_more_in_the_end() {
    let lab = lab!();
    let _alone = lab.alone().await;
    let data = lab.copy();
    let data = data.path();
    let server = Server::start(data, &[POOL, RECORDS]).await;
    // What is made once, on first use, is made here.
    let mut seen = BTreeSet::new();
    {
        let client = server.client().await;
        let mut counts = Counts::new();
        for _ in 0..6 {
            // Nobody kills yet, but a pause may meet a call that was given up and is still being ended.
            if let Err(status) = life(&client, &mut counts).await {
                assert_eq!(reason(&status), ErrorReason::Busy, "{status:?}");
            }
            seen.extend(leftovers::machines(data));
        }
    }
    nobody_left(&server).await;
    let before = settled(&server, PARKED, PRESPAWNED).await;

    let until = Instant::now() + duration();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(caller(server.client().await, until));
    }
    let (machines, killed) = killer(data, until).await;
    seen.extend(machines);
    let mut counts = Counts::new();
    while let Some(counted) = callers.join_next().await {
        for (what, times) in counted.expect("a caller saw what it may not see") {
            *counts.entry(what).or_default() += times;
        }
    }
    assert!(counts.values().sum::<u64>() > 0, "nothing was done");

    // It serves as before. Sandboxes that were left end with their time.
    let client = server.client().await;
    let sandbox = create(&client).await;
    assert_eq!(output(&client, &sandbox.id, python("print(6 * 7)")).await, "42");
    destroy(&client, &sandbox.id).await;
    drop(client);
    nobody_left(&server).await;
    let after = settled(&server, PARKED, PRESPAWNED).await;
    eprintln!("{killed} machines killed; {counts:?}\n  before {before:?}\n  after  {after:?}");
    assert_same(before, after);
    let panics: Vec<_> = server.lines().into_iter().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}");
    let living = leftovers::machines(data);
    let gone: BTreeSet<String> = seen.difference(&living).cloned().collect();
    assert_eq!(leftovers::find(data, &gone, &leftovers::supervisors(data)).cgroups, BTreeSet::new());
    seen.extend(living);
    server.stop(&seen).await;
}
