//! What happens to a sandbox whose time to live is over: it ends, is paused, or is paused until it is used.

use rekindle::config::tokens::{Quota, Scope};
use rekindle_api::v1::{self, ErrorReason, OnTimeout, SandboxState};
use rekindle_api::{Code, client::Client};
use rekindle_test_support::wait::{in_time, until_answer};

use crate::place::{Place, Wishes, millis, output, refused, shell, token};

fn short(on_timeout: OnTimeout) -> v1::CreateSandboxRequest {
    v1::CreateSandboxRequest { ttl: millis(200), on_timeout: on_timeout.into(), ..Default::default() }
}

async fn get(client: &mut Client, id: &str) -> v1::Sandbox {
    let asked = v1::GetSandboxRequest { sandbox: id.into() };
    client.sandboxes.get(asked).await.expect("known").into_inner()
}

async fn becomes(client: &mut Client, id: &str, state: SandboxState) -> v1::Sandbox {
    let asked =
        v1::WatchSandboxesRequest { sandbox: id.into(), include_existing: true, ..Default::default() };
    let mut events = client.sandboxes.watch(asked).await.expect("known").into_inner();
    let waiting = async {
        loop {
            let event = events.message().await.expect("told").expect("no end");
            if let Some(found) = event.sandbox.filter(|found| found.state() == state) {
                return found;
            }
        }
    };
    in_time("the state", waiting).await
}

#[tokio::test]
async fn a_sandbox_is_paused_at_its_timeout_where_that_was_asked_for() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox_with(&mut client, short(OnTimeout::Pause)).await;
    let paused = becomes(&mut client, &id, SandboxState::Paused).await;
    assert_eq!((paused.on_timeout(), paused.expires_at), (OnTimeout::Pause, None));
    let call = client.sandboxes.execute(shell(&id, "true")).await;
    refused(call, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    let resumed = client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await;
    assert!(resumed.expect("resumed").into_inner().expires_at.is_some(), "it has time again");
    assert_eq!(output(&mut client, &id, "echo here").await, "here\n");
    let (ended, _) = place.sandbox_with(&mut client, short(OnTimeout::Unspecified)).await;
    let ended = becomes(&mut client, &ended, SandboxState::Ended).await;
    assert_eq!(ended.on_timeout(), OnTimeout::Destroy, "as ever");
    refused(
        client.sandboxes.create(v1::CreateSandboxRequest { on_timeout: 77, ..Default::default() }).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
}

#[tokio::test]
async fn one_that_is_paused_until_it_is_used_is_resumed_by_every_kind_of_use() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let until_used = v1::CreateSandboxRequest { ttl: None, ..short(OnTimeout::PauseUntilUsed) };
    let (id, _) = place.sandbox_with(&mut client, until_used).await;
    let pause = v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() };
    for kind in 0..5 {
        // A call that has just been answered may still be under way for a moment.
        until_answer("paused", async || client.sandboxes.pause(pause.clone()).await.ok()).await;
        let listed = v1::ListExecutionsRequest { sandbox: id.clone() };
        client.executions.list(listed).await.expect("listed");
        assert_eq!(get(&mut client, &id).await.state(), SandboxState::Paused, "who looks does not use it");
        let sandbox = id.clone();
        let used = match kind {
            0 => client.sandboxes.execute(shell(&id, "true")).await.map(drop),
            1 => {
                let start =
                    v1::StartExecutionRequest { request: Some(shell(&id, "true")), ..Default::default() };
                client.executions.start(start).await.map(drop)
            }
            2 => client.files.list(v1::ListFilesRequest { sandbox, ..Default::default() }).await.map(drop),
            3 => {
                let code = v1::RunCodeRequest { sandbox, code: "true".into(), ..Default::default() };
                client.interpreter.run(code).await.map(drop)
            }
            _ => client.interpreter.list_contexts(v1::ListContextsRequest { sandbox }).await.map(drop),
        };
        used.unwrap_or_else(|status| panic!("{kind}: {status:?}"));
        assert_eq!(get(&mut client, &id).await.state(), SandboxState::Running, "{kind}");
    }
}

#[tokio::test]
async fn it_can_be_changed_and_what_is_not_said_stays() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let set = |ttl, on_timeout: OnTimeout| v1::SetSandboxTimeoutRequest {
        sandbox: id.clone(),
        ttl,
        on_timeout: on_timeout.into(),
        ..Default::default()
    };
    let told = client.sandboxes.set_timeout(set(None, OnTimeout::PauseUntilUsed)).await.expect("set");
    assert_eq!(told.into_inner().on_timeout(), OnTimeout::PauseUntilUsed);
    let told = client.sandboxes.set_timeout(set(millis(100), OnTimeout::Unspecified)).await.expect("set");
    assert_eq!(told.into_inner().on_timeout(), OnTimeout::PauseUntilUsed);
    becomes(&mut client, &id, SandboxState::Paused).await;
    let unknown = v1::SetSandboxTimeoutRequest { on_timeout: -1, ..set(None, OnTimeout::Pause) };
    let unknown = client.sandboxes.set_timeout(unknown).await;
    refused(unknown, Code::InvalidArgument, ErrorReason::InvalidRequest);
    // No longer resumed by its use.
    client.sandboxes.set_timeout(set(None, OnTimeout::Pause)).await.expect("set");
    let call = client.sandboxes.execute(shell(&id, "true")).await;
    refused(call, Code::FailedPrecondition, ErrorReason::SandboxPaused);
    client.sandboxes.set_timeout(set(millis(100), OnTimeout::Destroy)).await.expect("set");
    client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    becomes(&mut client, &id, SandboxState::Ended).await;
}

#[tokio::test]
async fn who_may_not_use_a_sandbox_does_not_resume_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let mine = token(&file, "mine", "acme", &[Scope::Create, Scope::Exec], Quota::default());
    let looks = token(&file, "looks", "acme", &[Scope::Files], Quota::default());
    let wishes = Wishes { tokens: Some(file), socket_requires_token: true, ..Wishes::default() };
    let place = Place::with(wishes).await;
    let mut client = place.client_with(Some(&mine)).await;
    let (id, _) = place.sandbox_with(&mut client, short(OnTimeout::PauseUntilUsed)).await;
    becomes(&mut client, &id, SandboxState::Paused).await;
    let mut other = place.client_with(Some(&looks)).await;
    let call = other.sandboxes.execute(shell(&id, "true")).await;
    refused(call, Code::PermissionDenied, ErrorReason::MissingScope);
    assert_eq!(get(&mut client, &id).await.state(), SandboxState::Paused);
}
