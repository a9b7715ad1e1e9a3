//! Root in a sandbox: where template and token allow it, and nowhere else.

use bytes::Bytes;
use rekindle::config::tokens::{NewToken, Scope};
use rekindle_api::client::Client;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_host::{add_token, new_token};

use crate::detached::{attach, rest, start, started};
use crate::files::{download, file, upload};
use crate::live::Live;
use crate::place::{Place, Wishes, detail, refused, shell};

const ROOT: &str = "root";

fn as_root(id: &str, line: &str) -> v1::ExecuteRequest {
    v1::ExecuteRequest { user: ROOT.into(), ..shell(id, line) }
}

/// Everything that names a user, as root.
async fn everything(client: &mut Client, id: &str) -> Vec<(&'static str, Option<Status>)> {
    let (sandbox, user) = (id.to_owned(), ROOT.to_owned());
    let path = Bytes::from_static(b"/root/d");
    let live = v1::ExecuteStart { request: Some(as_root(id, "true")), ..v1::ExecuteStart::default() };
    let detached = v1::StartExecutionRequest { request: Some(as_root(id, "true")), ..start(id, "true") };
    let make = v1::MakeDirRequest {
        sandbox: sandbox.clone(),
        path: path.clone(),
        user: user.clone(),
        ..v1::MakeDirRequest::default()
    };
    let start_file = v1::UploadFileStart { user: user.clone(), ..file(id, "/root/f") };
    let read = v1::DownloadFileRequest {
        sandbox: sandbox.clone(),
        path: Bytes::from_static(b"/root/f"),
        max_bytes: 0,
        user: user.clone(),
    };
    let list = v1::ListFilesRequest {
        sandbox: sandbox.clone(),
        path: path.clone(),
        user: user.clone(),
        ..v1::ListFilesRequest::default()
    };
    let stat = v1::StatFileRequest { sandbox: sandbox.clone(), path: path.clone(), user: user.clone() };
    let watch = v1::WatchFilesRequest {
        sandbox: sandbox.clone(),
        path: path.clone(),
        user: user.clone(),
        ..v1::WatchFilesRequest::default()
    };
    let rename = v1::MoveFileRequest {
        sandbox: sandbox.clone(),
        from: path.clone(),
        to: Bytes::from_static(b"/root/e"),
        must_not_exist: false,
        user: user.clone(),
    };
    let remove =
        v1::RemoveFileRequest { sandbox, path: Bytes::from_static(b"/root/e"), recursive: true, user };
    let streamed = Live::start(client, live).await.err();
    vec![
        ("execute", client.sandboxes.execute(as_root(id, "true")).await.err()),
        ("stream", streamed),
        ("start", client.executions.start(detached).await.err()),
        ("make_dir", client.files.make_dir(make).await.err()),
        ("upload", upload(client, start_file, &Bytes::from_static(b"x")).await.err()),
        ("download", download(client, read).await.err()),
        ("list", client.files.list(list).await.err()),
        ("stat", client.files.stat(stat).await.err()),
        ("watch", client.files.watch(watch).await.err()),
        ("move", client.files.r#move(rename).await.err()),
        ("remove", client.files.remove(remove).await.err()),
    ]
}

#[tokio::test]
async fn a_caller_is_root_where_it_says_so() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for (user, name) in [("", "user\n"), ("user", "user\n"), (ROOT, "root\n")] {
        let request = v1::ExecuteRequest { user: user.into(), ..shell(&id, "whoami") };
        let done = client.sandboxes.execute(request).await.expect("executed").into_inner();
        assert_eq!(done.stdout.expect("an output").text, name);
    }
    let written = v1::UploadFileStart { user: ROOT.into(), ..file(&id, "/tmp/a") };
    let written = upload(&mut client, written, &Bytes::from_static(b"x")).await.expect("written");
    assert_eq!(written.into_inner().owner, ROOT);
    for (call, error) in everything(&mut client, &id).await {
        assert!(error.is_none(), "{call}: {error:?}");
    }
    for unknown in ["nobody", "Root", "root\n", "0"] {
        let request = v1::ExecuteRequest { user: unknown.into(), ..shell(&id, "whoami") };
        let done = client.sandboxes.execute(request).await;
        refused(done, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
}

#[tokio::test]
async fn nobody_is_root_where_the_template_does_not_allow_it() {
    let place = Place::with(Wishes { root: false, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let before = guest.executed();
    for (call, error) in everything(&mut client, &id).await {
        let status = error.unwrap_or_else(|| panic!("{call} was done"));
        assert_eq!(status.code(), Code::PermissionDenied, "{call}: {status:?}");
        assert_eq!(detail(&status).reason(), ErrorReason::RootForbidden, "{call}");
        assert!(status.message().contains("the template"), "{call}: {}", status.message());
    }
    assert_eq!(guest.executed(), before, "nothing reached the guest");
    assert!(
        place.audit().iter().any(|line| line["reason"] == "root_forbidden" && line["decision"] == "denied")
    );
}

#[tokio::test]
async fn a_token_without_root_reaches_no_program_of_root_either() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let token = |id: &str, root: bool| {
        let scopes = [Scope::Create, Scope::Exec, Scope::Files];
        add_token(&file, &NewToken { root, ..new_token(id, "acme", &scopes) })
    };
    let (with, without) = (token("with", true), token("without", false));
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let mut client = place.client_with(Some(&with)).await;
    let mut other = place.client_with(Some(&without)).await;
    let (id, _) = place.sandbox(&mut client).await;
    for (call, error) in everything(&mut other, &id).await {
        let status = error.unwrap_or_else(|| panic!("{call} was done"));
        assert_eq!(detail(&status).reason(), ErrorReason::RootForbidden, "{call}");
        assert!(status.message().contains("this token"), "{call}: {}", status.message());
    }
    let request = v1::StartExecutionRequest {
        request: Some(as_root(&id, "cat")),
        live_stdin: true,
        ..start(&id, "cat")
    };
    let execution = started(&mut client, request).await;
    let asked =
        v1::AttachExecutionRequest { sandbox: id.clone(), execution: execution.clone(), from_now: false };
    let attached = other.executions.attach(asked).await.expect_err("refused");
    assert_eq!(detail(&attached).reason(), ErrorReason::RootForbidden);
    let signal = |signal: u32| v1::SignalExecutionRequest {
        sandbox: id.clone(),
        execution: execution.clone(),
        signal,
        ..v1::SignalExecutionRequest::default()
    };
    let signalled = other.executions.signal(signal(9)).await;
    refused(signalled, Code::PermissionDenied, ErrorReason::RootForbidden);
    let events = attach(&mut client, &id, &execution).await;
    client.executions.signal(signal(9)).await.expect("signalled");
    rest(events).await;
}
