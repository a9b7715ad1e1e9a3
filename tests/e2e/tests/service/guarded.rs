//! A server on TCP: TLS, tokens with what they allow, and tokens that change while it serves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rekindle_e2e::cli::{Ended, command, ended, rekindle, token};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::until;

/// Longest wait for changed tokens to count.
const NOTICED: Duration = Duration::from_secs(30);

/// Commands for one server over TCP.
pub struct Remote<'a> {
    pub data: &'a Path,
    pub url: String,
    pub ca: PathBuf,
}

impl Remote<'_> {
    async fn run(&self, token: Option<&str>, words: &[&str]) -> Ended {
        let mut command = command(self.data, words);
        command.env("REKINDLE_SERVER", &self.url).env("REKINDLE_CA", &self.ca);
        match token {
            Some(token) => command.env("REKINDLE_TOKEN", token),
            None => command.env_remove("REKINDLE_TOKEN"),
        };
        ended(&mut command).await
    }

    pub async fn text(&self, token: &str, words: &[&str]) -> String {
        let ended = self.run(Some(token), words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.stdout
    }
}

/// A certificate for the loopback address, signed by itself, and its key.
fn certificate(dir: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    fs::write(&cert, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("closed");
    (cert, key)
}

/// A server with TLS and the tokens of a file, and the certificate to trust.
pub async fn over_tcp(data: &Path, tokens: &str) -> (Server, PathBuf) {
    let (cert, key) = certificate(data);
    let settings = [
        "listen.tcp=127.0.0.1:0".to_owned(),
        format!("listen.tls_cert={}", cert.display()),
        format!("listen.tls_key={}", key.display()),
        format!("auth.tokens={tokens}"),
        format!("telemetry.audit_log={}", data.join("audit.jsonl").display()),
    ];
    (Server::start(data, &settings.each_ref().map(String::as_str)).await, cert)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_a_token_is_needed_allows_what_it_says_and_counts_as_long_as_its_file_has_it() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    let file = data.join("tokens.toml").display().to_string();
    let maker = token(data, &file, "maker", "acme", "create,exec,files").await;
    let reader = token(data, &file, "reader", "acme", "files").await;
    let stranger = token(data, &file, "stranger", "other", "create,exec,files").await;
    let (mut server, cert) = over_tcp(data, &file).await;
    let on = Remote { data, url: server.https().await, ca: cert };

    let created = on.text(&maker, &["create"]).await;
    let id = created.trim_end();
    assert_eq!(on.text(&maker, &["exec", id, "--sh", "echo over TLS"]).await, "over TLS\n");

    on.run(None, &["ps"]).await.assert_own_failure("token");
    on.run(Some("rk_wrong"), &["ps"]).await.assert_own_failure("token");
    on.run(Some(&reader), &["exec", id, "--sh", "true"]).await.assert_own_failure("scope");
    on.run(Some(&maker), &["status"]).await.assert_own_failure("scope");
    // Another tenant's sandbox is as unknown as one that never was.
    assert_eq!(on.text(&stranger, &["ps", "--all", "--json"]).await.trim_end(), "[]");
    let unknown = format!("{}{}", &id[..3], "0".repeat(id.len() - 3));
    let theirs = on.run(Some(&stranger), &["exec", id, "--sh", "true"]).await;
    let nobodys = on.run(Some(&stranger), &["exec", &unknown, "--sh", "true"]).await;
    assert_eq!((theirs.code, nobodys.code), (Some(125), Some(125)), "{theirs:?} {nobodys:?}");
    assert_eq!(theirs.stderr.replace(id, "ID"), nobodys.stderr.replace(&unknown, "ID"));
    // Without the right authority nobody is talked to.
    let mut trusting_nobody = command(data, &["ps"]);
    trusting_nobody.env("REKINDLE_SERVER", &on.url).env("REKINDLE_TOKEN", &maker).env_remove("REKINDLE_CA");
    ended(&mut trusting_nobody).await.assert_own_failure("no server answers at");

    // The audit log goes on in a new file when its old one was put away, as is done every night.
    let (audit, old) = (data.join("audit.jsonl"), data.join("audit.jsonl.1"));
    fs::rename(&audit, &old).expect("put away");
    server.signal(Signal::SIGHUP);
    until("the tokens are not read again", || server.log().contains("the tokens were read again")).await;
    assert!(fs::read_to_string(&old).expect("an audit log").contains("stranger"));

    // Taken away and given, without a restart.
    let late = token(data, &file, "late", "acme", "create,exec").await;
    let removed = rekindle(data, &["token", "rm", "--file", &file, "maker"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    server.signal(Signal::SIGHUP);
    let began = Instant::now();
    while on.run(Some(&late), &["exec", id, "--sh", "true"]).await.code != Some(0) {
        assert!(began.elapsed() < NOTICED, "a new token does not count: {}", server.log());
    }
    on.run(Some(&maker), &["exec", id, "--sh", "true"]).await.assert_own_failure("token");
    // A file that is no good changes nothing.
    fs::write(&file, "nonsense").expect("written");
    server.signal(Signal::SIGHUP);
    assert_eq!(on.text(&late, &["exec", id, "--sh", "echo still"]).await, "still\n");

    let audit = [old, audit].map(|file| fs::read_to_string(file).expect("an audit log")).concat();
    let listed = rekindle(data, &["token", "ls", "--file", &file]).await;
    assert_eq!(listed.code, Some(125), "a bad file is told: {listed:?}");
    for secret in [&maker, &reader, &stranger, &late] {
        assert!(
            !audit.contains(secret.as_str()) && !server.log().contains(secret.as_str()),
            "a secret is logged"
        );
    }
    for id in ["maker", "reader", "stranger", "late"] {
        assert!(audit.contains(id), "{id} is not in {audit}");
    }
    assert!(audit.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{audit}");
    server.stop(&leftovers::machines(data)).await;
}
