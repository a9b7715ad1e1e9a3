//! Who may do what: TLS, tokens, scopes, tenants, and the audit log of all of it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rekindle::config::tokens::{NewToken, Quota, Scope};
use rekindle::door::TlsFiles;
use rekindle_api::client::{Client, ConnectError, Target};
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};
use rekindle_fake_host::{add_token, new_token};
use rekindle_test_support::wait::{in_time, until_answer};

use crate::place::{Place, Wishes, detail, millis, output, refused, shell, token};

/// An authority and what it signed.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem())
    }

    /// The files of a server.
    pub fn files(&self, dir: &Path, clients: Option<&Self>) -> TlsFiles {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = dir.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let (cert, key) = self.sign("127.0.0.1");
        TlsFiles {
            cert: write("cert.pem", &cert),
            key: secret(write("key.pem", &key)),
            client_ca: clients.map(|clients| write("clients.pem", &clients.pem)),
        }
    }
}

pub fn target(place: &Place, ca: &Authority, identity: Option<(String, String)>) -> Target {
    let url = format!("https://{}", place.tcp.expect("a port"));
    let identity = identity.map(|(cert, key)| (cert.into(), key.into()));
    Target::Tls { url, ca: Some(ca.pem.clone().into()), identity }
}

pub async fn over_tls(place: &Place, ca: &Authority, token: Option<&str>) -> Client {
    Client::connect(&target(place, ca, None), token).await.expect("connected")
}

const ALL: [Scope; 3] = [Scope::Create, Scope::Exec, Scope::Files];

/// A file that only its owner may read.
fn secret(path: std::path::PathBuf) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    path
}

#[tokio::test]
pub async fn over_tls_a_valid_token_is_needed_and_every_refusal_sounds_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let good = token(&file, "good", "acme", &ALL, Quota::default());
    let expires = Some("2020-01-01T00:00:00Z".parse().expect("a time"));
    let old = add_token(&file, &NewToken { expires, ..new_token("old", "acme", &ALL) });
    let ca = Authority::new();
    let tls = Some(ca.files(dir.path(), None));
    let place = Place::with(Wishes { tokens: Some(file), tls, ..Wishes::default() }).await;

    let mut client = over_tls(&place, &ca, Some(&good)).await;
    let (id, _) = place.sandbox(&mut client).await;
    assert_eq!(output(&mut client, &id, "echo safe").await, "safe\n");

    let wrong = format!("{}x", &good[..good.len() - 1]);
    let mut heard: Vec<(Code, String, v1::ErrorDetail)> = Vec::new();
    for (shown, reason) in [
        (None, "no_token"),
        (Some(wrong.as_str()), "unknown_token"),
        (Some("rk_good_"), "unknown_token"),
        (Some(old.as_str()), "expired_token"),
        (Some(&"x".repeat(5000)), "malformed_token"),
    ] {
        let mut stranger = over_tls(&place, &ca, shown).await;
        let calls: Vec<Status> = vec![
            stranger
                .sandboxes
                .create(v1::CreateSandboxRequest::default())
                .await
                .map(drop)
                .expect_err("refused"),
            stranger
                .sandboxes
                .get(v1::GetSandboxRequest { sandbox: id.clone() })
                .await
                .map(drop)
                .expect_err("refused"),
            stranger
                .sandboxes
                .watch(v1::WatchSandboxesRequest::default())
                .await
                .map(drop)
                .expect_err("refused"),
            stranger.host.list_templates(v1::ListTemplatesRequest {}).await.map(drop).expect_err("refused"),
        ];
        heard.extend(calls.iter().map(|status| (status.code(), status.message().to_owned(), detail(status))));
        let told = place.audit();
        let line = told.last().expect("a line");
        assert_eq!((&line["decision"], &line["reason"]), (&"denied".into(), &reason.into()), "{line}");
        assert!(
            line.get("tenant").is_none() && line["peer"].as_str().expect("a peer").starts_with("127."),
            "{line}"
        );
    }
    assert!(heard.iter().all(|one| *one == heard[0]), "{heard:?}");
    assert_eq!((heard[0].0, heard[0].2.reason()), (Code::Unauthenticated, ErrorReason::Unauthenticated));
    let log = format!("{:?}", place.audit());
    assert!(!log.contains(&good) && !log.contains(&old) && !log.contains(&wrong), "secrets are never logged");
    // Plain text on the TLS port gets nowhere.
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", place.tcp.expect("a port")))
        .expect("a url");
    let plain = rekindle_api::v1::host_client::HostClient::new(plain.connect_lazy())
        .list_templates(v1::ListTemplatesRequest {})
        .await;
    plain.expect_err("no answer without TLS");
}

#[tokio::test]
async fn with_a_client_authority_a_certificate_is_needed_beside_the_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = token(&file, "good", "acme", &ALL, Quota::default());
    let (ca, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let tls = Some(ca.files(dir.path(), Some(&clients)));
    let place = Place::with(Wishes { tokens: Some(file), tls, ..Wishes::default() }).await;
    for identity in [None, Some(others.sign("client"))] {
        // The refusal may come with the handshake or with the first call.
        let refused = match Client::connect(&target(&place, &ca, identity), Some(&secret)).await {
            Err(ConnectError::Connect { .. }) => true,
            Err(other) => panic!("{other:?}"),
            Ok(mut client) => client.sandboxes.list(v1::ListSandboxesRequest::default()).await.is_err(),
        };
        assert!(refused);
    }
    assert!(place.audit().is_empty(), "nobody got as far as a call");
    let known = target(&place, &ca, Some(clients.sign("client")));
    let mut client = Client::connect(&known, Some(&secret)).await.expect("connected");
    place.sandbox(&mut client).await;
    let mut without = Client::connect(&known, None).await.expect("connected");
    let refusal = without.sandboxes.list(v1::ListSandboxesRequest::default()).await;
    refused(refusal, Code::Unauthenticated, ErrorReason::Unauthenticated);
    // A server whose authority the client does not know is not talked to.
    let doubtful = target(&place, &others, Some(clients.sign("client")));
    Client::connect(&doubtful, Some(&secret)).await.expect_err("not trusted");
}

#[tokio::test]
async fn certificates_are_read_again_while_serving_and_bad_ones_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = token(&file, "good", "acme", &ALL, Quota::default());
    let (old, new) = (Authority::new(), Authority::new());
    let tls = Some(old.files(dir.path(), None));
    let place = Place::with(Wishes { tokens: Some(file), tls, ..Wishes::default() }).await;
    let mut before = over_tls(&place, &old, Some(&secret)).await;
    before.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("answered");

    new.files(dir.path(), None);
    until_answer("the new certificate", async || {
        Client::connect(&target(&place, &new, None), Some(&secret)).await.ok()
    })
    .await;
    let mut after = over_tls(&place, &new, Some(&secret)).await;
    after.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("answered");
    Client::connect(&target(&place, &old, None), Some(&secret)).await.expect_err("it has another now");
    before.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("who is there stays");

    // A key that is not the certificate's: asked for, refused, and forgotten.
    let (_, key) = old.sign("127.0.0.1");
    let right = fs::read(dir.path().join("key.pem")).expect("a key");
    fs::write(dir.path().join("key.pem"), key).expect("written");
    let tls = place.tls.clone().expect("TLS");
    assert!(tls.read_again().is_err(), "the files do not belong together");
    over_tls(&place, &new, Some(&secret)).await;
    fs::write(dir.path().join("key.pem"), right).expect("written");
    tls.read_again().expect("they do again");
    let key = dir.path().join("key.pem");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("changed");
    assert!(tls.read_again().is_err(), "everybody may read the key");
    self::secret(key);
    tls.read_again().expect("nobody else may");
    over_tls(&place, &new, Some(&secret)).await;
}

#[tokio::test]
async fn scopes_are_asked_call_by_call() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = |id: &str, scopes: &[Scope]| token(&file, id, "acme", scopes, Quota::default());
    let (create, exec, files) = (
        secret("create", &[Scope::Create]),
        secret("exec", &[Scope::Exec]),
        secret("files", &[Scope::Files]),
    );
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let mut maker = place.client_with(Some(&create)).await;
    let (id, _) = place.sandbox(&mut maker).await;
    for (secret, may_create, may_exec, may_files) in
        [(&create, true, false, false), (&exec, false, true, false), (&files, false, false, true)]
    {
        let mut client = place.client_with(Some(secret)).await;
        let sandbox = || id.clone();
        client.sandboxes.get(v1::GetSandboxRequest { sandbox: sandbox() }).await.expect("any scope may look");
        client.sandboxes.list(v1::ListSandboxesRequest::default()).await.expect("any scope may look");
        client.host.list_templates(v1::ListTemplatesRequest {}).await.expect("any scope may look");
        let longer = v1::SetSandboxTimeoutRequest {
            sandbox: sandbox(),
            ttl: millis(60_000),
            idle_timeout: None,
            ..Default::default()
        };
        let calls = [
            (may_create, client.sandboxes.set_timeout(longer).await.map(drop)),
            (
                may_create,
                client
                    .sandboxes
                    .pause(v1::PauseSandboxRequest { sandbox: sandbox(), ..Default::default() })
                    .await
                    .map(drop),
            ),
            (
                may_create,
                client.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: sandbox() }).await.map(drop),
            ),
            (may_exec, client.sandboxes.execute(shell(&id, "true")).await.map(drop)),
            (
                may_files,
                client
                    .files
                    .list(v1::ListFilesRequest { sandbox: sandbox(), ..Default::default() })
                    .await
                    .map(drop),
            ),
            (false, client.host.status(v1::HostStatusRequest {}).await.map(drop)),
            (false, client.host.usage(v1::HostUsageRequest { tenant: "other".into() }).await.map(drop)),
        ];
        for (at, (may, answer)) in calls.into_iter().enumerate() {
            match answer {
                Ok(()) => assert!(may, "call {at}"),
                Err(status) => {
                    assert!(!may, "call {at}: {status:?}");
                    assert_eq!(status.code(), Code::PermissionDenied);
                    assert_eq!(detail(&status).reason(), ErrorReason::MissingScope);
                }
            }
        }
    }
    let denied = place
        .audit()
        .iter()
        .filter(|line| line["reason"] == "missing_scope" && line["decision"] == "denied")
        .count();
    assert_eq!(denied, 4 + 6 + 6, "every refusal is in the log");
}

#[tokio::test]
async fn another_tenants_sandbox_is_as_unknown_as_one_that_never_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret =
        |id: &str, tenant: &str, scopes: &[Scope]| token(&file, id, tenant, scopes, Quota::default());
    let (owner, spy, admin) =
        (secret("owner", "acme", &ALL), secret("spy", "rival", &ALL), secret("root", "ops", &[Scope::Admin]));
    let place = Place::with(Wishes { tokens: Some(file.clone()), ..Wishes::default() }).await;
    let mut owner = place.client_with(Some(&owner)).await;
    let mut spy = place.client_with(Some(&spy)).await;
    let (id, guest) = place.sandbox(&mut owner).await;
    let never = format!("sb-{}", "0123456789ab".repeat(2));
    let mut heard: Vec<Vec<(Code, String, v1::ErrorDetail)>> = Vec::new();
    for sandbox in [id.clone(), never] {
        let s = || sandbox.clone();
        let file = v1::upload_file_request::Part::Start(v1::UploadFileStart {
            sandbox: s(),
            path: "x".into(),
            ..Default::default()
        });
        let upload = futures::stream::iter([v1::UploadFileRequest { part: Some(file) }]);
        let start = v1::ExecuteStart { request: Some(shell(&sandbox, "true")), ..Default::default() };
        let start =
            futures::stream::iter([v1::ExecuteInput { input: Some(v1::execute_input::Input::Start(start)) }]);
        let download =
            v1::DownloadFileRequest { sandbox: s(), path: "x".into(), max_bytes: 0, user: String::new() };
        let answers = [
            spy.sandboxes.get(v1::GetSandboxRequest { sandbox: s() }).await.map(drop),
            spy.sandboxes.execute(shell(&sandbox, "true")).await.map(drop),
            spy.sandboxes.execute_stream(start).await.map(drop),
            spy.files.upload(upload).await.map(drop),
            crate::files::download(&mut spy, download).await.map(drop),
            spy.files.list(v1::ListFilesRequest { sandbox: s(), ..Default::default() }).await.map(drop),
            spy.files
                .stat(v1::StatFileRequest { sandbox: s(), path: "x".into(), user: String::new() })
                .await
                .map(drop),
            spy.files
                .remove(v1::RemoveFileRequest {
                    sandbox: s(),
                    path: "x".into(),
                    recursive: true,
                    user: String::new(),
                })
                .await
                .map(drop),
            spy.sandboxes
                .pause(v1::PauseSandboxRequest { sandbox: s(), ..Default::default() })
                .await
                .map(drop),
            spy.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: s() }).await.map(drop),
            spy.sandboxes
                .set_timeout(v1::SetSandboxTimeoutRequest {
                    sandbox: s(),
                    ttl: millis(1),
                    idle_timeout: None,
                    ..Default::default()
                })
                .await
                .map(drop),
            spy.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: s() }).await.map(drop),
            spy.sandboxes
                .watch(v1::WatchSandboxesRequest { sandbox: s(), ..Default::default() })
                .await
                .map(drop),
            spy.sandboxes
                .timeline(v1::SandboxTimelineRequest { sandbox: s(), ..Default::default() })
                .await
                .map(drop),
        ];
        let told = answers.into_iter().map(|answer| {
            let status = answer.expect_err("not the caller's");
            (status.code(), status.message().to_owned(), detail(&status))
        });
        heard.push(told.collect());
    }
    assert_eq!(heard[0], heard[1]);
    assert!(
        heard[0].iter().all(
            |(code, _, detail)| (*code, detail.reason()) == (Code::NotFound, ErrorReason::UnknownSandbox)
        )
    );
    assert_eq!(guest.executed().len(), 0, "nothing reached the guest");
    assert!(
        spy.sandboxes
            .list(v1::ListSandboxesRequest::default())
            .await
            .expect("listed")
            .into_inner()
            .sandboxes
            .is_empty()
    );
    let denied = place
        .audit()
        .iter()
        .filter(|line| line["tenant"] == "rival" && line["decision"] == "denied" && line["sandbox"] == id)
        .count();
    assert_eq!(denied, 14, "every try is in the log");

    // A watch of everything shows a tenant its own, and who runs the host everyone's.
    let mut admin = place.client_with(Some(&admin)).await;
    let mut seen =
        spy.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("watches").into_inner();
    let mut all =
        admin.sandboxes.watch(v1::WatchSandboxesRequest::default()).await.expect("watches").into_inner();
    owner
        .sandboxes
        .pause(v1::PauseSandboxRequest { sandbox: id.clone(), ..Default::default() })
        .await
        .expect("paused");
    owner.sandboxes.resume(v1::ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    let (own, _) = place.sandbox(&mut spy).await;
    let first = in_time("an event", seen.message()).await.expect("watches").expect("an event");
    assert_eq!(first.sandbox.expect("a sandbox").id, own, "it hears nothing of the other tenant");
    let first = in_time("an event", all.message()).await.expect("watches").expect("an event");
    assert_eq!(first.sandbox.expect("a sandbox").id, id);
    let everyone = admin
        .sandboxes
        .list(v1::ListSandboxesRequest::default())
        .await
        .expect("listed")
        .into_inner()
        .sandboxes;
    assert_eq!(everyone.iter().map(|sandbox| sandbox.tenant.as_str()).collect::<Vec<_>>(), ["acme", "rival"]);
    let foreign = admin.sandboxes.execute(shell(&id, "true")).await;
    refused(foreign, Code::NotFound, ErrorReason::UnknownSandbox);
    admin
        .sandboxes
        .destroy(v1::DestroySandboxRequest { sandbox: id })
        .await
        .expect("who runs the host may end it");
    let sums = admin.host.usage(v1::HostUsageRequest::default()).await.expect("told").into_inner().tenants;
    assert_eq!(sums.iter().map(|sum| sum.tenant.as_str()).collect::<Vec<_>>(), ["acme", "rival"]);
    let sums = spy.host.usage(v1::HostUsageRequest::default()).await.expect("told").into_inner().tenants;
    assert_eq!(sums.iter().map(|sum| sum.tenant.as_str()).collect::<Vec<_>>(), ["rival"]);
}
