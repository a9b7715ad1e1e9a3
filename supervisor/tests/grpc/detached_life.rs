//! Detached executions and the life of their sandbox: its end, idleness, pauses, and whose they are.

use std::time::Duration;

use rekindle::config::tokens::{Quota, Scope};
use rekindle_api::Code;
use rekindle_api::v1::detached_execution::State;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{self, ErrorReason, SandboxEndReason, execute_event::Event};
use rekindle_test_support::wait::{in_time, until};

use crate::detached::{attach, input, list, next, rest, signal, start, started, timeline, wait, with_input};
use crate::place::{Place, Wishes, detail, millis, output, refused, token};

#[tokio::test]
async fn who_waits_hears_how_the_sandbox_ended_and_so_does_the_timeline() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "echo x; cat")).await;
    let mut events = attach(&mut client, &id, &execution).await;
    assert_eq!(next(&mut events).await.expect("printed"), Some(Event::Stdout("x\n".into())));
    let waiting = tokio::spawn({
        let (mut client, id, execution) = (place.client().await, id.clone(), execution.clone());
        async move { wait(&mut client, &id, &execution).await }
    });
    let destroyed = client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() });
    in_time("destroyed", destroyed).await.expect("destroyed");
    let attached = next(&mut events).await.expect_err("it ended");
    for status in [attached, waiting.await.expect("no panic").expect_err("it ended")] {
        let detail = detail(&status);
        assert_eq!(detail.reason(), ErrorReason::SandboxEnded, "{status:?}");
        assert_eq!(detail.end.expect("an end").reason(), SandboxEndReason::Destroyed);
    }
    let late = wait(&mut client, &id, &execution).await.expect_err("too late");
    assert_eq!((late.code(), detail(&late).reason()), (Code::FailedPrecondition, ErrorReason::SandboxEnded));
    let told = timeline(&mut client, &id).await;
    let entry = told.iter().find(|entry| entry.execution == execution).expect("it is remembered");
    let came = entry.outcome.as_ref().expect("one").outcome;
    assert_eq!(came, Some(Came::End(SandboxEndReason::Destroyed.into())));
}

#[tokio::test]
async fn a_lost_machine_ends_it_with_the_reason() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let execution = started(&mut client, start(&id, "sleep 600000")).await;
    let mut events = attach(&mut client, &id, &execution).await;
    place.machine().crash();
    let status = next(&mut events).await.expect_err("it is gone");
    assert_eq!(
        (status.code(), detail(&status).reason()),
        (Code::Unavailable, ErrorReason::VmLost),
        "{status:?}"
    );
}

#[tokio::test]
async fn a_running_program_is_no_idleness_and_its_end_is() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "cat")).await;
    let set = v1::SetSandboxTimeoutRequest {
        sandbox: id.clone(),
        ttl: None,
        idle_timeout: millis(50),
        ..Default::default()
    };
    client.sandboxes.set_timeout(set).await.expect("set");
    // The end of another call does not start the clock.
    assert_eq!(output(&mut client, &id, "echo alive").await, "alive\n");
    // However long this takes, a sandbox that counts as idle is gone afterwards.
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.executions.send_input(input(&id, &execution, "", true)).await.expect("it is not idle");
    place.until_sandbox(&id, |sandbox| sandbox.end.is_some()).await;
    let got = client.sandboxes.get(v1::GetSandboxRequest { sandbox: id }).await.expect("known");
    assert_eq!(got.into_inner().end.expect("ended").reason(), SandboxEndReason::Idle);
}

#[tokio::test]
async fn a_pause_freezes_it_and_who_looks_on_goes_on_looking() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "echo x; cat; fail 4")).await;
    let mut events = attach(&mut client, &id, &execution).await;
    assert_eq!(next(&mut events).await.expect("printed"), Some(Event::Stdout("x\n".into())));
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    in_time("paused", client.sandboxes.pause(pause)).await.expect("no call is under way");
    assert!(place.machine().is_paused());
    let sent = client.executions.send_input(input(&id, &execution, "no", true)).await;
    refused(sent, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    let sent = client.executions.signal(signal(&id, &execution, 9)).await;
    refused(sent, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    let more = client.executions.start(start(&id, "true")).await;
    refused(more, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    assert!(matches!(list(&mut client, &id).await[0].state, Some(State::Running(_))));
    let waiting = tokio::spawn({
        let (mut client, id, execution) = (place.client().await, id.clone(), execution.clone());
        async move { wait(&mut client, &id, &execution).await }
    });
    let resume = v1::ResumeSandboxRequest { sandbox: id.clone() };
    in_time("resumed", client.sandboxes.resume(resume)).await.expect("resumed");
    client.executions.send_input(input(&id, &execution, "yes", true)).await.expect("written");
    let told = rest(events).await;
    assert_eq!((&told.stdout[..], told.end.ended()), (&b"yes"[..], Some(Outcome::ExitCode(4))));
    assert_eq!(waiting.await.expect("no panic").expect("ended").ended(), Some(Outcome::ExitCode(4)));
    until("nothing runs", || guest.running() == 0).await;
}

#[tokio::test]
async fn nothing_is_heard_of_a_program_while_its_sandbox_is_paused() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let execution = started(&mut client, start(&id, "sleep 300; echo late")).await;
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    in_time("paused", client.sandboxes.pause(pause)).await.expect("no call is under way");
    // The processors of this guest are no real ones and go on.
    let before = list(&mut client, &id).await.remove(0);
    until("it has printed and ended", || guest.running() == 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = list(&mut client, &id).await.remove(0);
    assert_eq!((after.state, after.stdout_bytes), (before.state, before.stdout_bytes));
    let resume = v1::ResumeSandboxRequest { sandbox: id.clone() };
    in_time("resumed", client.sandboxes.resume(resume)).await.expect("resumed");
    let end = wait(&mut client, &id, &execution).await.expect("ended");
    assert_eq!((end.ended(), &end.stdout.expect("stdout").text[..]), (Some(Outcome::ExitCode(0)), "late\n"));
}

#[tokio::test]
async fn tenants_see_their_own_and_the_scope_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let full = [Scope::Create, Scope::Exec];
    let own = token(&file, "own", "a", &full, Quota::default());
    let idle = token(&file, "idle", "a", &[Scope::Create, Scope::Files], Quota::default());
    let stranger = token(&file, "stranger", "b", &full, Quota::default());
    let admin = token(&file, "admin", "c", &[Scope::Admin], Quota::default());
    let place = Place::with(Wishes { tokens: Some(file), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&own)).await;
    let (id, guest) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "cat")).await;
    let expected = [
        (&stranger, Code::NotFound, ErrorReason::UnknownSandbox),
        (&admin, Code::NotFound, ErrorReason::UnknownSandbox),
        (&idle, Code::PermissionDenied, ErrorReason::MissingScope),
    ];
    for (token, code, reason) in expected {
        let mut other = place.client_with(Some(token)).await.executions;
        let (sandbox, name) = (id.clone(), execution.clone());
        refused(other.start(start(&id, "true")).await, code, reason);
        refused(other.list(v1::ListExecutionsRequest { sandbox: id.clone() }).await, code, reason);
        refused(other.send_input(input(&id, &execution, "x", true)).await, code, reason);
        refused(other.signal(signal(&id, &execution, 9)).await, code, reason);
        let size = Some(v1::TerminalSize { rows: 1, columns: 1 });
        let resize = v1::ResizeExecutionRequest { sandbox: id.clone(), execution: name.clone(), size };
        refused(other.resize(resize).await, code, reason);
        let asked =
            v1::AttachExecutionRequest { sandbox: id.clone(), execution: name.clone(), from_now: false };
        refused(other.attach(asked).await, code, reason);
        refused(other.wait(v1::WaitExecutionRequest { sandbox, execution: name }).await, code, reason);
    }
    assert_eq!(guest.running(), 1, "nobody else reached it");
    client.executions.send_input(input(&id, &execution, "mine", true)).await.expect("written");
    assert_eq!(wait(&mut client, &id, &execution).await.expect("ended").stdout.expect("stdout").text, "mine");
}
