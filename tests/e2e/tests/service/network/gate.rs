//! A server with the network policy `test`, and programs run in its sandboxes: what the tests beside it share.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use rekindle_api::client::Client;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::{CreateSandboxRequest, Diagnosis, ExecuteRequest, ExecutionNetwork, Program, Sandbox};
use rekindle_e2e::authority::Authority;
use rekindle_e2e::cli::command;
use rekindle_e2e::server::Server;
use rekindle_e2e::{Lab, leftovers};
use rekindle_test_support::wait::PATIENCE;
use tempfile::TempDir;

use crate::calls::{create_with, python, shell, time};

/// Characters of output that are wanted: what is asserted on must not be in the part that is cut.
const OUTPUT: u32 = 100_000;

/// Functions for programs in Python: a request with any host to any address, and a handshake with any name. Both say
/// what came of it in a few words.
pub const ASK: &str = r#"
import http.client, json, socket, ssl
def ask(address, host=None, port=80, method="GET", connection=None):
    connection = connection or http.client.HTTPConnection(address, port, timeout=200)
    connection.putrequest(method, "/", skip_host=True)
    connection.putheader("Host", host or address)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    return f"{answer.status} {json.loads(text)['reason'] if answer.status == 403 else text}"
def shake(address, name):
    context = ssl._create_unverified_context()
    try:
        with context.wrap_socket(socket.create_connection((address, 443), timeout=200), server_hostname=name):
            return "shaken"
    except ssl.SSLError as error:
        return error.reason
"#;

/// A server and what is needed to end it.
pub struct Gate {
    pub server: Server,
    pub client: Client,
    /// Goes last: the server's log is in it.
    data: TempDir,
    /// The certificates that the server believes, where they are its own.
    roots: Option<TempDir>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<u32>,
    pub stdout: String,
    pub stderr: String,
    pub diagnosis: Option<Diagnosis>,
    pub network: ExecutionNetwork,
}

impl Ran {
    /// What it printed; it went well.
    pub fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim_end().to_owned()
    }

    /// It failed with this code and said `words`, in whatever case, on either stream: pip tells on its standard output.
    pub fn assert_told(&self, code: u32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let said = format!("{}\n{}", self.stdout, self.stderr).to_lowercase().replace('_', " ");
        assert!(said.contains(words), "{words:?} is not in {self:?}");
    }
}

impl Gate {
    /// Starts a server of one template. `allow` is what the policy allows, in the words of the configuration; every
    /// name of `hosts` leads to its address.
    pub async fn open(lab: &Lab, template: &str, allow: &str, hosts: &[(&str, SocketAddr)]) -> Self {
        Self::open_with(lab, template, allow, hosts, &[]).await
    }

    /// The same with more settings.
    pub async fn open_with(
        lab: &Lab,
        template: &str,
        allow: &str,
        hosts: &[(&str, SocketAddr)],
        more: &[String],
    ) -> Self {
        let policies = format!("test = {{ mode = \"allow\", {allow} }}");
        Self::start(lab, template, &policies, hosts, more, &[], 0).await
    }

    /// The same, with one machine that waits ready.
    pub async fn open_parked(lab: &Lab, template: &str, allow: &str, hosts: &[(&str, SocketAddr)]) -> Self {
        let policies = format!("test = {{ mode = \"allow\", {allow} }}");
        let gate = Self::start(lab, template, &policies, hosts, &[], &[], 1).await;
        gate.server.filled(1, 0).await;
        gate
    }

    /// The same with these policies, of a server that believes this authority as well as none other.
    pub async fn open_trusting(
        lab: &Lab,
        template: &str,
        policies: &str,
        hosts: &[(&str, SocketAddr)],
        authority: &Authority,
    ) -> Self {
        let dir = TempDir::new().expect("a directory");
        let pem = dir.path().join("roots.pem");
        fs::write(&pem, authority.pem()).expect("written");
        let mut gate = Self::start(lab, template, policies, hosts, &[], &[("SSL_CERT_FILE", &pem)], 0).await;
        gate.roots = Some(dir);
        gate
    }

    async fn start(
        lab: &Lab,
        template: &str,
        policies: &str,
        hosts: &[(&str, SocketAddr)],
        more: &[String],
        variables: &[(&str, &Path)],
        parked: u32,
    ) -> Self {
        let data = lab.copy();
        let hosts: Vec<String> =
            hosts.iter().map(|(name, address)| format!("\"{name}\" = \"{address}\"")).collect();
        let settings = [
            format!("network.policies={{ {policies} }}"),
            format!("network.hosts={{ {} }}", hosts.join(", ")),
            // Where nothing waits ready, every sandbox is restored from the snapshot when it is asked for.
            format!(
                "pool.templates={{ {template} = {{ parked_low = {parked}, parked_high = {parked}, prespawned = 0 }} }}"
            ),
            format!("sandbox.default_template={template}"),
            "telemetry.log_format=json".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().chain(more).map(String::as_str).collect();
        let mut server = Server::launch_with(data.path(), &settings, variables);
        server.ready().await;
        let client = server.client().await;
        Self { data, server, client, roots: None }
    }

    /// What a command prints that works on the server's data.
    pub async fn operator(&self, words: &[&str]) -> String {
        let ran = command(self.data.path(), words).output().await.expect("started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{words:?}: {}{}", text(&ran.stdout), text(&ran.stderr));
        text(&ran.stdout)
    }

    /// The processes that run its machines.
    pub fn monitors(&self) -> BTreeSet<u32> {
        leftovers::monitors(self.data.path())
    }

    /// The processes that serve its connections.
    pub fn workers(&self) -> Vec<u32> {
        let all = fs::read_dir("/proc").expect("processes");
        let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let server = self.server.pid().to_string();
        let is_worker = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let is = |field: &str, value: &str| {
                status.lines().any(|line| line.split_once(":\t") == Some((field, value)))
            };
            is("Name", "rekindle-net") && is("PPid", &server)
        };
        all.filter(is_worker).collect()
    }

    /// A sandbox with a policy.
    pub async fn sandbox(&self, network: &str) -> Sandbox {
        let request = CreateSandboxRequest {
            network: network.to_owned(),
            ttl: time(PATIENCE * 10),
            ..CreateSandboxRequest::default()
        };
        create_with(&self.client, request).await
    }

    /// Runs a line of the shell, with these bytes on its standard input.
    pub async fn shell(&self, sandbox: &Sandbox, line: &str, stdin: &str) -> Ran {
        self.run(sandbox, shell(line), stdin, "").await
    }

    /// Runs Python source that can [`ASK`], and returns the lines it printed.
    pub async fn python(&self, sandbox: &Sandbox, source: &str) -> Vec<String> {
        self.ran_python(sandbox, source).await.printed().lines().map(str::to_owned).collect()
    }

    /// Runs Python source that can [`ASK`].
    pub async fn ran_python(&self, sandbox: &Sandbox, source: &str) -> Ran {
        self.run(sandbox, python(&format!("{ASK}\n{source}")), "", "").await
    }

    /// The same as the guest's root, and returns the lines it printed.
    pub async fn python_as_root(&self, sandbox: &Sandbox, source: &str) -> Vec<String> {
        let ran = self.run(sandbox, python(&format!("{ASK}\n{source}")), "", "root").await;
        ran.printed().lines().map(str::to_owned).collect()
    }

    async fn run(&self, sandbox: &Sandbox, program: Program, stdin: &str, user: &str) -> Ran {
        let request = ExecuteRequest {
            sandbox: sandbox.id.clone(),
            program: Some(program),
            stdin: stdin.as_bytes().to_vec().into(),
            timeout: time(PATIENCE),
            output_limit: Some(OUTPUT),
            user: user.to_owned(),
            ..ExecuteRequest::default()
        };
        let ended = self.client.sandboxes.clone().execute(request).await.expect("it runs").into_inner();
        let code = match ended.ended() {
            Some(Outcome::ExitCode(code)) => Some(code),
            _ => None,
        };
        let text = |output: Option<rekindle_api::v1::Output>| output.unwrap_or_default().text;
        Ran {
            code,
            stdout: text(ended.stdout),
            stderr: text(ended.stderr),
            diagnosis: ended.diagnosis,
            network: ended.network.unwrap_or_default(),
        }
    }

    /// Ends it, with nothing left.
    pub async fn close(self) {
        let machines: BTreeSet<String> = leftovers::machines(self.data.path());
        self.server.stop(&machines).await;
    }
}
