//! How sandboxes end by themselves, and that everyone is told why.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_api::client::Client;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::{
    CreateSandboxRequest, ErrorReason, ExecuteRequest, Sandbox, SandboxEndReason, SandboxState,
    WatchSandboxesRequest,
};
use rekindle_api::{Code, detail};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::{PATIENCE, until};

use crate::calls::{
    begun, create, create_with, destroy, ended, execute, get, output, python, reason, shell, time,
};

/// Nothing waits ready: a machine that is there is a sandbox's.
const NO_POOL: &str = "pool.templates={ minimal = { parked_low = 0, parked_high = 0, prespawned = 0 } }";

/// How a sandbox ended.
fn end(sandbox: &Sandbox) -> SandboxEndReason {
    sandbox.end.as_ref().unwrap_or_else(|| panic!("it has not ended: {sandbox:?}")).reason()
}

/// The next thing a watch of one sandbox tells, as its end.
async fn watched(client: &Client, sandbox: &str) -> tokio::task::JoinHandle<SandboxEndReason> {
    let request = WatchSandboxesRequest { sandbox: sandbox.into(), ..WatchSandboxesRequest::default() };
    let mut events = client.sandboxes.clone().watch(request).await.expect("watched").into_inner();
    tokio::spawn(async move {
        loop {
            let event = events.message().await.expect("told").expect("the end comes before the stream's");
            let sandbox = event.sandbox.expect("its sandbox");
            if sandbox.state() == SandboxState::Ended {
                return end(&sandbox);
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_ends_when_its_time_is_over_and_an_idle_one_when_nobody_uses_it() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[NO_POOL]).await;
    let client = server.client().await;
    let (short, quiet) = tokio::join!(
        create_with(
            &client,
            CreateSandboxRequest {
                ttl: time(Duration::from_millis(1_500)),
                ..CreateSandboxRequest::default()
            }
        ),
        create_with(
            &client,
            CreateSandboxRequest {
                idle_timeout: time(Duration::from_millis(1_500)),
                ..CreateSandboxRequest::default()
            }
        ),
    );
    let machines = leftovers::machines(data.path());
    let told = watched(&client, &short.id).await;
    // A call keeps a sandbox from being idle for as long as it takes, and no longer.
    assert_eq!(output(&client, &quiet.id, shell("sleep 3; echo busy")).await, "busy");
    assert_eq!(get(&client, &quiet.id).await.state(), SandboxState::Running);
    let (short, quiet) = tokio::join!(ended(&client, &short.id), ended(&client, &quiet.id));
    assert_eq!((end(&short), end(&quiet)), (SandboxEndReason::Expired, SandboxEndReason::Idle));
    assert_eq!(told.await.expect("told"), SandboxEndReason::Expired);
    // Whoever comes too late is told how it ended.
    let late = execute(&client, &short.id, shell("true")).await.expect_err("it has ended");
    assert_eq!((late.code(), reason(&late)), (Code::FailedPrecondition, ErrorReason::SandboxEnded));
    assert_eq!(
        detail(&late).and_then(|detail| detail.end).map(|end| end.reason()),
        Some(SandboxEndReason::Expired)
    );
    // A call under way when the time is over hears it too.
    let cut = create_with(
        &client,
        CreateSandboxRequest { ttl: time(Duration::from_millis(2_000)), ..CreateSandboxRequest::default() },
    )
    .await;
    let error = execute(&client, &cut.id, shell("sleep 100")).await.expect_err("it ends");
    assert_eq!((error.code(), reason(&error)), (Code::Unavailable, ErrorReason::SandboxEnded));
    server.stop(&machines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_machine_is_told_to_the_call_it_hit_and_to_everyone_later_and_its_neighbour_lives() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[NO_POOL]).await;
    let client = server.client().await;
    let hit = create(&client).await;
    let victim = leftovers::monitors(data.path());
    let neighbour = create(&client).await;
    let machines = leftovers::machines(data.path());
    let told = watched(&client, &hit.id).await;

    let call = {
        let (client, id) = (client.clone(), hit.id.clone());
        tokio::spawn(async move { execute(&client, &id, shell("touch begun; sleep 100")).await })
    };
    begun(&client, &hit.id).await;
    for pid in victim {
        kill(Pid::from_raw(pid.try_into().expect("a pid")), Signal::SIGKILL).expect("killed");
    }
    let error = call.await.expect("ends").expect_err("the machine is lost");
    assert_eq!((error.code(), reason(&error)), (Code::Unavailable, ErrorReason::VmLost), "{error:?}");
    let blamed = detail(&error).and_then(|detail| detail.end).map(|end| end.reason());
    assert_eq!(blamed, Some(SandboxEndReason::VmLost));
    assert_eq!(end(&ended(&client, &hit.id).await), SandboxEndReason::VmLost);
    assert_eq!(told.await.expect("told"), SandboxEndReason::VmLost);
    // Destroying what has ended is no error and changes nothing.
    assert_eq!(end(&destroy(&client, &hit.id).await), SandboxEndReason::VmLost);

    assert_eq!(output(&client, &neighbour.id, shell("echo alive")).await, "alive");
    assert_eq!(end(&destroy(&client, &neighbour.id).await), SandboxEndReason::Destroyed);
    until("its files stay", || leftovers::machines(data.path()).is_empty()).await;
    server.stop(&machines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_time_that_run_out_inside_are_outcomes_and_the_sandbox_lives_on() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[NO_POOL]).await;
    let client = server.client().await;
    let sandbox = create(&client).await;
    // More than the limit, and less than the machine has.
    let eat = format!("x = bytearray(b'x') * ({} << 20)", lab.source.recipe.memory_mib * 2 / 5);
    let request = ExecuteRequest {
        sandbox: sandbox.id.clone(),
        program: Some(python(&eat)),
        timeout: time(PATIENCE),
        memory_bytes: 64 << 20,
        ..ExecuteRequest::default()
    };
    let eaten = client.sandboxes.clone().execute(request).await.expect("an outcome").into_inner();
    assert!(matches!(eaten.ended(), Some(Outcome::OutOfMemory(_))), "{eaten:?}");
    let request = ExecuteRequest {
        sandbox: sandbox.id.clone(),
        program: Some(shell("sleep 100")),
        timeout: time(Duration::from_millis(500)),
        ..ExecuteRequest::default()
    };
    let late = client.sandboxes.clone().execute(request).await.expect("an outcome").into_inner();
    assert!(matches!(late.ended(), Some(Outcome::TimedOut(_))), "{late:?}");
    assert_eq!(output(&client, &sandbox.id, shell("echo alive")).await, "alive");
    assert_eq!(get(&client, &sandbox.id).await.usage.unwrap_or_default().executions, 3);
    server.stop(&leftovers::machines(data.path())).await;
}
