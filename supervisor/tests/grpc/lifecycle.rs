//! A sandbox's life: its clocks, its pauses, and every way it ends.

use std::time::Duration;

use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::service::{
    Caller, CreateSpec, EndReason, SandboxState, SandboxView, Service, ServiceConfig, ServiceError,
    TimelineOutcome,
};
use rekindle_api::Code;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_fake_guest::Manner;
use rekindle_test_support::wait::{in_time, until, until_answer};
use tokio::time::{advance, pause};

use crate::place::{Place, Wishes, millis, output, refused, shell, spec};

const SECOND: Duration = Duration::from_secs(1);

/// A sandbox made in this process, so that its clock can be turned.
async fn made(service: &Service, ttl: u64, idle: u64) -> SandboxView {
    let idle_timeout = (idle > 0).then(|| SECOND * u32::try_from(idle).expect("small"));
    let spec = CreateSpec { ttl: Some(Duration::from_secs(ttl)), idle_timeout, ..CreateSpec::default() };
    service.create(&Caller::local(), spec, "").await.expect("created")
}

async fn state(service: &Service, made: &SandboxView) -> (SandboxState, Option<EndReason>) {
    // Let the keeper see the time first.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let view = service.get(&Caller::local(), made.id.as_str()).await.expect("found");
    (view.state, view.end.map(|end| end.reason))
}

async fn ended(service: &Service, made: &SandboxView) -> EndReason {
    for _ in 0..10_000 {
        if let (SandboxState::Ended, Some(reason)) = state(service, made).await {
            return reason;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never ends");
}

const RUNNING: (SandboxState, Option<EndReason>) = (SandboxState::Running, None);

#[tokio::test]
async fn a_sandbox_lives_as_long_as_it_was_given() {
    let place = Place::new().await;
    let made = made(&place.service, 100, 0).await;
    pause();
    advance(99 * SECOND).await;
    assert_eq!(state(&place.service, &made).await, RUNNING);
    advance(2 * SECOND).await;
    assert_eq!(ended(&place.service, &made).await, EndReason::Expired);
    assert!(!place.machine().is_alive());
}

#[tokio::test]
async fn an_idle_sandbox_ends_and_one_with_a_call_under_way_is_not_idle() {
    let place = Place::new().await;
    let service = &place.service;
    let made = made(service, 1000, 10).await;
    pause();
    advance(9 * SECOND).await;
    let spec = spec("sleep 50000", 60 * SECOND);
    let began = tokio::time::Instant::now();
    let ran = service.execute(&Caller::local(), made.id.as_str(), spec, Default::default(), "").await;
    ran.expect("it is in use for longer than it may be idle");
    assert!(began.elapsed() >= 50 * SECOND);
    advance(9 * SECOND).await;
    assert_eq!(state(service, &made).await, RUNNING, "the end of a call starts the clock anew");
    advance(2 * SECOND).await;
    assert_eq!(ended(service, &made).await, EndReason::Idle);
}

#[tokio::test]
async fn who_asks_for_pauses_without_end_does_not_outlive_the_clocks() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 0).await;
    let id = made.id.as_str();
    pause();
    let began = tokio::time::Instant::now();
    // While a call is under way each takes its time to be refused, and the next one waits already.
    let asking = async || {
        while let Err(ServiceError::UnderWay { .. }) = service.pause(&caller, id).await
            && began.elapsed() < 200 * SECOND
        {}
    };
    let spec = spec("sleep 600000", 1000 * SECOND);
    let running = service.execute(&caller, id, spec, Default::default(), "");
    let (ran, ..) = in_time("its end", async { tokio::join!(running, asking(), asking(), asking()) }).await;
    ran.expect_err("it was cut off");
    assert_eq!(ended(service, &made).await, EndReason::Expired);
    assert!(began.elapsed() < 110 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_pause_stops_both_clocks() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 20).await;
    pause();
    advance(15 * SECOND).await;
    for _ in 0..2 {
        let paused = service.pause(&caller, made.id.as_str()).await.expect("paused, however often");
        assert_eq!((paused.state, paused.expires_at), (SandboxState::Paused, None));
    }
    assert!(place.machine().is_paused());
    advance(3600 * SECOND).await;
    assert_eq!(state(service, &made).await, (SandboxState::Paused, None));
    for _ in 0..2 {
        let resumed = service.resume(&caller, made.id.as_str()).await.expect("resumed, however often");
        assert_eq!(resumed.state, SandboxState::Running);
        assert!(resumed.usage.running < 20 * SECOND, "a pause is not paid for: {:?}", resumed.usage.running);
    }
    assert!(!place.machine().is_paused());
    advance(4 * SECOND).await;
    assert_eq!(state(service, &made).await, RUNNING);
    advance(2 * SECOND).await;
    assert_eq!(ended(service, &made).await, EndReason::Idle, "a pause does not start the idle clock anew");
}

#[tokio::test]
async fn a_resumed_sandbox_has_the_right_time_before_a_call_gets_in() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 0).await;
    let guest = place.host.guests.all().pop().expect("a guest");
    let unix_nanos = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        u64::try_from(now.as_nanos()).expect("before 2554")
    };
    service.pause(&caller, made.id.as_str()).await.expect("paused");
    assert!(guest.clocks().is_empty(), "nobody talks to a guest that stands still");
    let before = unix_nanos();
    for _ in 0..2 {
        service.resume(&caller, made.id.as_str()).await.expect("resumed");
    }
    let [set] = guest.clocks()[..] else { panic!("once: {:?}", guest.clocks()) };
    assert!((before..=unix_nanos()).contains(&set));

    place.host.guests.behave(Manner { refuses_clock: true, ..Manner::default() });
    let old = self::made(service, 100, 0).await;
    service.pause(&caller, old.id.as_str()).await.expect("paused");
    let resumed =
        service.resume(&caller, old.id.as_str()).await.expect("an older agent is no reason to fail");
    assert_eq!(resumed.state, SandboxState::Running);
}

#[tokio::test]
async fn a_sandbox_that_stays_paused_ends_and_says_why() {
    let place =
        Place::with(Wishes { service: |config| config.max_pause = Some(1000 * SECOND), ..Wishes::default() })
            .await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 20).await;
    let id = made.id.as_str();
    pause();
    service.pause(&caller, id).await.expect("paused");
    advance(600 * SECOND).await;
    service.resume(&caller, id).await.expect("in time");
    service.pause(&caller, id).await.expect("paused again");
    advance(399 * SECOND).await;
    assert_eq!(state(service, &made).await, (SandboxState::Paused, None));
    advance(2 * SECOND).await;
    assert_eq!(ended(service, &made).await, EndReason::Expired, "all its pauses together are too long");
    let end = service.get(&caller, id).await.expect("a record").end.expect("an end");
    assert!(end.message.contains("paused"), "{}", end.message);
    assert!(!place.machine().is_alive());
}

#[tokio::test]
async fn a_transition_whose_caller_goes_away_is_made_to_its_end() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 20).await;
    let id = made.id.as_str();
    pause();
    for (operation, wanted) in
        [(Operation::Pause, SandboxState::Paused), (Operation::Resume, SandboxState::Running)]
    {
        place.host.engine.inject(operation, Fault::Delay(SECOND));
        let (asking, from, asked_for) = (service.clone(), caller.clone(), made.id.clone());
        let asked = tokio::spawn(async move {
            match wanted {
                SandboxState::Paused => asking.pause(&from, asked_for.as_str()).await,
                _ => asking.resume(&from, asked_for.as_str()).await,
            }
        });
        until("begun", || place.host.engine.log().last() == Some(&operation)).await;
        asked.abort();
        assert!(asked.await.expect_err("it goes away in the middle").is_cancelled());
        advance(2 * SECOND).await;
        until("done", || place.machine().is_paused() == (wanted == SandboxState::Paused)).await;
        until("recorded", || {
            service.timeline(&caller, id).is_ok_and(|timeline| {
                timeline
                    .entries
                    .back()
                    .is_some_and(|entry| entry.call != "create" && entry.outcome == TimelineOutcome::Done)
            })
        })
        .await;
        assert_eq!(state(service, &made).await.0, wanted, "what is recorded is what the machine does");
    }
    advance(30 * SECOND).await;
    assert_eq!(ended(service, &made).await, EndReason::Idle, "its clocks run again");
}

#[tokio::test]
async fn transitions_asked_for_at_once_leave_the_record_and_the_machine_alike() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 1000, 0).await;
    let id = made.id.as_str();
    for round in 0..50 {
        for operation in [Operation::Pause, Operation::Resume] {
            place.host.engine.inject(operation, Fault::Delay(Duration::from_millis(round % 3)));
        }
        let (pause, resume) = (|| service.pause(&caller, id), || service.resume(&caller, id));
        let (a, b, c, d) = tokio::join!(pause(), resume(), pause(), resume());
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
        let paused = state(service, &made).await.0 == SandboxState::Paused;
        assert_eq!(place.machine().is_paused(), paused);
    }
}

#[tokio::test]
async fn a_machine_whose_processors_are_in_doubt_is_brought_back_or_ended() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let made = made(service, 100, 20).await;
    let id = made.id.as_str();
    let fail = |operation| place.host.engine.inject(operation, Fault::Fail("no".into()));
    fail(Operation::Pause);
    service.pause(&caller, id).await.expect_err("refused");
    assert_eq!(state(service, &made).await, RUNNING);
    service.pause(&caller, id).await.expect("paused");
    fail(Operation::Resume);
    service.resume(&caller, id).await.expect_err("refused");
    assert_eq!(state(service, &made).await.0, SandboxState::Paused);
    assert!(place.machine().is_paused());
    fail(Operation::Resume);
    fail(Operation::Pause);
    service.resume(&caller, id).await.expect_err("refused");
    assert_eq!(ended(service, &made).await, EndReason::VmLost);
}

#[tokio::test]
async fn a_timeout_can_be_changed_within_the_longest_life() {
    let service = |config: &mut ServiceConfig| config.max_ttl = 100 * SECOND;
    let place = Place::with(Wishes { service, ..Wishes::default() }).await;
    let (service, caller) = (&place.service, Caller::local());
    let too_long = CreateSpec { ttl: Some(101 * SECOND), ..CreateSpec::default() };
    service.create(&caller, too_long, "").await.expect_err("beyond the maximum");
    let made = made(service, 40, 0).await;
    pause();
    advance(30 * SECOND).await;
    service
        .set_timeout(&caller, made.id.as_str(), Some(71 * SECOND), None, None)
        .expect_err("100 from its creation");
    service.set_timeout(&caller, made.id.as_str(), Some(60 * SECOND), None, None).expect("within");
    advance(59 * SECOND).await;
    assert_eq!(state(service, &made).await, RUNNING, "its first 40 seconds no longer count");
    service.set_timeout(&caller, made.id.as_str(), None, Some(3 * SECOND), None).expect("an idle timeout");
    service.set_timeout(&caller, made.id.as_str(), Some(10 * SECOND), None, None).expect("still within");
    advance(4 * SECOND).await;
    assert_eq!(ended(service, &made).await, EndReason::Idle);
    service.set_timeout(&caller, made.id.as_str(), Some(SECOND), None, None).expect_err("too late");
}

#[tokio::test]
async fn over_the_wire_a_pause_is_refused_while_busy_and_calls_are_while_paused() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let pause = || v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    let busy = tokio::spawn({
        let (mut client, request) = (client.clone(), shell(&id, "sleep 600000"));
        async move { client.sandboxes.execute(request).await }
    });
    until("running", || guest.running() == 1).await;
    let detail = refused(client.sandboxes.pause(pause()).await, Code::FailedPrecondition, ErrorReason::Busy);
    assert!(detail.retryable && !detail.hint.is_empty());
    busy.abort();
    until("killed", || guest.running() == 0).await;
    // The call's end is noted a moment after its program's.
    let paused =
        until_answer("paused", async || client.sandboxes.pause(pause()).await.ok()).await.into_inner();
    assert_eq!((paused.state(), paused.expires_at), (v1::SandboxState::Paused, None));
    let late = client.sandboxes.execute(shell(&id, "true")).await;
    refused(late, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    let look = v1::StatFileRequest { sandbox: id.clone(), path: "x".into(), user: String::new() };
    refused(client.files.stat(look).await, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    let resumed =
        client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    assert!(resumed.into_inner().expires_at.is_some());
    assert_eq!(output(&mut client, &id, "echo again").await, "again\n");

    place.host.engine.inject(Operation::Pause, Fault::Fail("/secret/path of the host".into()));
    let status = client.sandboxes.pause(pause()).await.expect_err("the machine refuses");
    assert_eq!(
        (status.code(), crate::place::detail(&status).reason()),
        (Code::Internal, ErrorReason::Internal)
    );
    assert!(!status.message().contains("secret"), "{status:?}");
    assert_eq!(output(&mut client, &id, "echo still").await, "still\n", "it goes on as it was");
    client.sandboxes.pause(pause()).await.expect("paused");
    let gone =
        client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id }).await.expect("also while paused");
    assert_eq!(gone.into_inner().state(), v1::SandboxState::Ended);
}

#[tokio::test]
async fn over_the_wire_time_runs_out_for_the_call_under_way_too() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let create = v1::CreateSandboxRequest { ttl: millis(500), ..v1::CreateSandboxRequest::default() };
    let (id, _) = place.sandbox_with(&mut client, create).await;
    let call = client.sandboxes.execute(shell(&id, "sleep 600000"));
    let cut = in_time("its end", call).await;
    let detail = refused(cut, Code::Unavailable, ErrorReason::SandboxEnded);
    assert_eq!(detail.end.expect("how").reason(), v1::SandboxEndReason::Expired);
    let beyond = v1::SetSandboxTimeoutRequest {
        sandbox: id,
        ttl: millis(1000),
        idle_timeout: None,
        ..Default::default()
    };
    refused(client.sandboxes.set_timeout(beyond).await, Code::FailedPrecondition, ErrorReason::SandboxEnded);
}

#[tokio::test]
async fn a_lost_machine_and_a_lost_agent_are_told_to_the_call_in_get_and_in_watch() {
    for (machine, reason, end) in [
        (true, ErrorReason::VmLost, v1::SandboxEndReason::VmLost),
        (false, ErrorReason::AgentLost, v1::SandboxEndReason::AgentLost),
    ] {
        let place = Place::new().await;
        let mut client = place.client().await;
        let (id, guest) = place.sandbox(&mut client).await;
        let watch = v1::WatchSandboxesRequest { sandbox: id.clone(), ..v1::WatchSandboxesRequest::default() };
        let mut events = client.sandboxes.watch(watch).await.expect("watches").into_inner();
        let call = tokio::spawn({
            let (mut client, request) = (client.clone(), shell(&id, "sleep 600000"));
            async move { client.sandboxes.execute(request).await }
        });
        until("running", || guest.running() == 1).await;
        if machine {
            place.machine().crash();
        } else {
            guest.crash();
        }
        let detail = refused(in_time("told", call).await.expect("no panic"), Code::Unavailable, reason);
        assert_eq!(detail.end.expect("how").reason(), end);
        let event = in_time("an event", events.message()).await.expect("watches").expect("an event");
        assert_eq!(event.kind(), v1::SandboxEventKind::Ended);
        let told = event.sandbox.expect("a sandbox");
        let got = client
            .sandboxes
            .get(v1::GetSandboxRequest { sandbox: id.clone() })
            .await
            .expect("found")
            .into_inner();
        for sandbox in [told, got] {
            assert_eq!(sandbox.state(), v1::SandboxState::Ended);
            assert_eq!(sandbox.end.expect("an end").reason(), end);
        }
        let late = client.sandboxes.execute(shell(&id, "true")).await;
        refused(late, Code::FailedPrecondition, ErrorReason::SandboxEnded);
        assert!(!place.machine().is_alive(), "nothing is left");
        until("room", || place.service.overview().pool.memory_mib.used == 0).await;
    }
}

#[tokio::test]
async fn an_idle_timeout_can_be_set_changed_and_removed() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let create = v1::CreateSandboxRequest { idle_timeout: millis(90_000), ..Default::default() };
    let (id, _) = place.sandbox_with(&mut client, create).await;
    for (asked, then) in [
        (None, millis(90_000)),
        (millis(70_000), millis(70_000)),
        (millis(0), None),
        (None, None),
        (millis(1_000_000), millis(1_000_000)),
    ] {
        let request = v1::SetSandboxTimeoutRequest {
            sandbox: id.clone(),
            ttl: None,
            idle_timeout: asked,
            ..Default::default()
        };
        let set = client.sandboxes.set_timeout(request).await.expect("set").into_inner();
        assert_eq!(set.idle_timeout, then, "after {asked:?}");
    }
    let negative = Some(rekindle_api::Duration { seconds: -1, nanos: 0 });
    for (ttl, idle_timeout) in [(negative, None), (None, negative), (millis(0), None)] {
        let request =
            v1::SetSandboxTimeoutRequest { sandbox: id.clone(), ttl, idle_timeout, ..Default::default() };
        refused(
            client.sandboxes.set_timeout(request).await,
            Code::InvalidArgument,
            ErrorReason::InvalidRequest,
        );
    }
}
