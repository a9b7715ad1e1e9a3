//! Pauses that keep the disk alone: what is given back, what is kept, and how a sandbox comes back.

use std::fs;
use std::path::{Path, PathBuf};

use rekindle::config::tokens::{Quota, Scope};
use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::pool::PoolConfig;
use rekindle::service::{self, Caller};
use rekindle_api::client::Client;
use rekindle_api::v1::detached_execution::State;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::{self, ErrorReason, OnTimeout, SandboxState};
use rekindle_api::{Code, Status};
use rekindle_fake_guest::Manner;
use rekindle_fake_host::MEMORY_MIB;
use rekindle_test_support::wait::{in_time, until, until_answer};

use crate::detached::{list, start, started, wait};
use crate::place::{Place, Wishes, millis, output, refused, shell, token};

async fn get(client: &mut Client, id: &str) -> v1::Sandbox {
    let asked = v1::GetSandboxRequest { sandbox: id.to_owned() };
    client.sandboxes.get(asked).await.expect("known").into_inner()
}

async fn pause(client: &mut Client, id: &str) -> Result<v1::Sandbox, Status> {
    let request = v1::PauseSandboxRequest { sandbox: id.into(), without_memory: true };
    in_time("a pause", client.sandboxes.pause(request)).await.map(tonic::Response::into_inner)
}

async fn resume(client: &mut Client, id: &str) -> Result<tonic::Response<v1::Sandbox>, Status> {
    let request = v1::ResumeSandboxRequest { sandbox: id.into() };
    in_time("a resume", client.sandboxes.resume(request)).await
}

/// Everything called `scratch` below a directory.
fn disks(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(disks(&path));
        } else if path.ends_with("scratch") {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn its_memory_is_given_back_and_it_boots_with_its_disk_and_what_it_was_made_with() {
    let place = Place::new().await;
    let run = place.host.data().join("run");
    let mut client = place.client().await;
    let request = v1::CreateSandboxRequest {
        env: [("WHO".to_owned(), "me".to_owned())].into(),
        limits: Some(v1::Limits { pids: 77, ..Default::default() }),
        ..Default::default()
    };
    let (id, _) = place.sandbox_with(&mut client, request).await;
    let first = place.machine();
    let [disk] = &disks(&run)[..] else { panic!("one disk") };
    fs::write(disk, "what the guest wrote").expect("written");

    let paused = pause(&mut client, &id).await.expect("paused");
    assert_eq!(
        (paused.state(), paused.without_memory, paused.expires_at),
        (SandboxState::Paused, true, None)
    );
    assert!(!first.is_alive(), "there is no machine");
    until("its memory is free", || place.service.pool().status().memory_mib.used == 0).await;
    let status = place.service.pool().status();
    assert_eq!((status.disk_mib.used, status.milli_cpus.used), (16, 0), "its disk is not");
    let [disk] = &disks(&run)[..] else { panic!("one disk: {:?}", disks(&run)) };
    assert_eq!(fs::read_to_string(disk).expect("read"), "what the guest wrote");
    refused(
        client.sandboxes.execute(shell(&id, "true")).await,
        Code::FailedPrecondition,
        ErrorReason::SandboxPaused,
    );
    assert!(pause(&mut client, &id).await.expect("however often").without_memory);

    let resumed = resume(&mut client, &id).await.expect("resumed").into_inner();
    assert_eq!((resumed.state(), resumed.without_memory), (SandboxState::Running, false));
    assert!(resumed.expires_at.is_some());
    assert_eq!(place.host.engine.log().last(), Some(&Operation::Dial));
    assert!(place.host.engine.log().contains(&Operation::Launch), "it was booted");
    let guest = place.host.guests.all().pop().expect("a guest");
    let [told] = &guest.restores()[..] else { panic!("one restore") };
    let scratch = told.scratch.as_ref().expect("a disk");
    assert!(scratch.kept && told.hostname.is_empty() && told.machine_id.is_empty(), "{told:?}");
    assert_eq!(told.limits.expect("limits").pids, 77);
    assert!(told.env.iter().any(|var| var.name == b"WHO"[..] && var.value == b"me"[..]));
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
    let [disk] = &disks(&run)[..] else { panic!("one disk: {:?}", disks(&run)) };
    assert_eq!(fs::read_to_string(disk).expect("read"), "what the guest wrote", "it is the same");
    let status = place.service.pool().status();
    assert_eq!(
        (status.memory_mib.used, status.disk_mib.used, status.milli_cpus.used),
        (MEMORY_MIB, 16, 2000)
    );

    let told: Vec<String> =
        crate::detached::timeline(&mut client, &id).await.into_iter().map(|e| e.call).collect();
    assert_eq!(told, ["create", "pause_without_memory", "pause_without_memory", "resume", "execute"]);
    pause(&mut client, &id).await.expect("once more");
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id }).await.expect("destroyed");
    assert!(disks(&run).is_empty(), "nothing is left");
    until("all is free", || place.service.pool().status().disk_mib.used == 0).await;
}

#[tokio::test]
async fn its_programs_end_and_the_list_says_so() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let execution = started(&mut client, start(&id, "echo x; sleep 600000")).await;
    until("it runs", || guest.running() == 1).await;
    pause(&mut client, &id).await.expect("a detached program keeps nobody from pausing");
    let listed = list(&mut client, &id).await.remove(0);
    assert!(!matches!(listed.state, Some(State::Running(_))), "{listed:?}");
    let end = wait(&mut client, &id, &execution).await.expect("it has ended");
    assert_eq!((end.ended(), &end.stdout.expect("output").text[..]), (Some(Outcome::Signal(15)), "x\n"));
    resume(&mut client, &id).await.expect("resumed");
    let again = started(&mut client, start(&id, "echo y")).await;
    assert_eq!(wait(&mut client, &id, &again).await.expect("ended").ended(), Some(Outcome::ExitCode(0)));
}

#[tokio::test]
async fn where_its_files_cannot_be_kept_it_goes_on() {
    let place = Place::new().await;
    place.host.guests.behave(Manner { refuses_stop: true, ..Manner::default() });
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let request = v1::PauseSandboxRequest { sandbox: id.clone(), without_memory: true };
    refused(client.sandboxes.pause(request).await, Code::ResourceExhausted, ErrorReason::NoSpace);
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
    // One that stands still does so afterwards as well.
    let request = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    client.sandboxes.pause(request).await.expect("paused");
    pause(&mut client, &id).await.expect_err("refused");
    assert!(place.machine().is_paused());
    resume(&mut client, &id).await.expect("resumed");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn a_machine_whose_resume_was_not_told_stands_still_again() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let request = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    client.sandboxes.pause(request).await.expect("paused");
    // To give its memory back it has to run once more.
    place.host.engine.inject(Operation::Resume, Fault::Late("the answer was lost".to_owned()));
    pause(&mut client, &id).await.expect_err("it is not known to run");
    assert!(place.machine().is_paused(), "it runs, and nobody pays for it");
    let request = v1::GetSandboxRequest { sandbox: id.clone() };
    assert_eq!(
        client.sandboxes.get(request).await.expect("known").into_inner().state(),
        SandboxState::Paused
    );
    resume(&mut client, &id).await.expect("resumed");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn a_guest_that_takes_its_time_to_stop_pays_for_it_and_can_be_ended() {
    let place = Place::new().await;
    place.host.guests.behave(Manner { silent_stop: true, ..Manner::default() });
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let (mut other, asked) = (client.clone(), id.clone());
    let asked = tokio::spawn(async move { pause(&mut other, &asked).await });
    let caller = Caller::local();
    let ran = async || {
        let view = place.service.get(&caller, &id).await.expect("known");
        (view.state == rekindle::service::SandboxState::Paused).then_some(view.usage.running)
    };
    let before = until_answer("no call gets in", ran).await;
    until_answer("its time runs", async || ran().await.filter(|now| *now > before)).await;
    // The guest could take two minutes, which is more than a test waits.
    let destroyed = client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() });
    in_time("its end", destroyed).await.expect("destroyed");
    asked.await.expect("no panic").expect_err("it has ended");
    until("all is free", || place.service.pool().status().disk_mib.used == 0).await;
}

#[tokio::test]
async fn one_that_is_paused_with_its_memory_gives_it_back_when_it_is_asked_to() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let request = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    assert!(!client.sandboxes.pause(request).await.expect("paused").into_inner().without_memory);
    let machine = place.machine();
    assert!(pause(&mut client, &id).await.expect("paused").without_memory);
    assert!(!machine.is_alive());
    resume(&mut client, &id).await.expect("resumed");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn a_resume_for_which_there_is_no_room_is_refused_and_can_be_repeated() {
    let wishes = Wishes {
        pool: PoolConfig::new(MEMORY_MIB, 1_000_000),
        service: |config| config.queue_wait = std::time::Duration::ZERO,
        ..Wishes::default()
    };
    let place = Place::with(wishes).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    pause(&mut client, &id).await.expect("paused");
    let (other, _) = place.sandbox(&mut client).await;
    let full = refused(resume(&mut client, &id).await, Code::ResourceExhausted, ErrorReason::HostFull);
    assert!(full.retry_after.is_some(), "{full:?}");
    let got = get(&mut client, &id).await;
    assert_eq!((got.state(), got.without_memory), (SandboxState::Paused, true), "as before");
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: other }).await.expect("destroyed");
    resume(&mut client, &id).await.expect("there is room");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn a_boot_that_fails_leaves_the_disk_for_the_next() {
    let place = Place::new().await;
    let run = place.host.data().join("run");
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    pause(&mut client, &id).await.expect("paused");
    for operation in [Operation::Launch, Operation::Dial] {
        place.host.engine.inject(operation, Fault::Fail("no".to_owned()));
        refused(resume(&mut client, &id).await, Code::Internal, ErrorReason::StartFailed);
        assert_eq!(disks(&run).len(), 1, "it is still there, once");
        until("memory is free", || place.service.pool().status().memory_mib.used == 0).await;
    }
    resume(&mut client, &id).await.expect("resumed");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn what_is_given_back_no_longer_counts_against_the_quota() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let quota = Quota { max_memory_mib: Some(MEMORY_MIB), ..Quota::default() };
    let own = token(&file, "own", "a", &[Scope::Create, Scope::Exec], quota);
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&own)).await;
    let (id, _) = place.sandbox(&mut client).await;
    let more = client.sandboxes.create(v1::CreateSandboxRequest::default()).await;
    refused(more, Code::ResourceExhausted, ErrorReason::QuotaExceeded);
    pause(&mut client, &id).await.expect("paused");
    let (other, _) = place.sandbox(&mut client).await;
    refused(resume(&mut client, &id).await, Code::ResourceExhausted, ErrorReason::QuotaExceeded);
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: other }).await.expect("destroyed");
    resume(&mut client, &id).await.expect("resumed");
    let more = client.sandboxes.create(v1::CreateSandboxRequest::default()).await;
    refused(more, Code::ResourceExhausted, ErrorReason::QuotaExceeded);
}

#[tokio::test]
async fn it_is_paused_so_at_its_timeout_and_no_use_resumes_it() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let request = v1::CreateSandboxRequest {
        ttl: millis(200),
        on_timeout: OnTimeout::PauseWithoutMemory.into(),
        ..Default::default()
    };
    let (id, _) = place.sandbox_with(&mut client, request).await;
    place.until_sandbox(&id, |sandbox| sandbox.state == service::SandboxState::Paused).await;
    let paused = get(&mut client, &id).await;
    assert_eq!((paused.without_memory, paused.on_timeout()), (true, OnTimeout::PauseWithoutMemory));
    let (until_used, _) = place
        .sandbox_with(
            &mut client,
            v1::CreateSandboxRequest { on_timeout: OnTimeout::PauseUntilUsed.into(), ..Default::default() },
        )
        .await;
    pause(&mut client, &until_used).await.expect("paused");
    for id in [&id, &until_used] {
        let call = client.sandboxes.execute(shell(id, "true")).await;
        refused(call, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    }
    assert!(resume(&mut client, &id).await.expect("resumed").into_inner().expires_at.is_some());
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
}

#[tokio::test]
async fn a_machine_that_was_booted_and_dies_is_the_end_of_its_sandbox() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    pause(&mut client, &id).await.expect("paused");
    resume(&mut client, &id).await.expect("resumed");
    place.machine().crash();
    place.until_sandbox(&id, |sandbox| sandbox.end.is_some()).await;
    let end = get(&mut client, &id).await.end.expect("ended");
    assert_eq!(end.reason(), v1::SandboxEndReason::VmLost);
}
