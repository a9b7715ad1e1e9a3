//! A server for the tests, with one token, on data of its own.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::certificate::Certificate;
use super::{names, text};
use crate::cache::Cache;
use crate::job::bound_command;

/// How a server tells where E2B's clients find it.
const READY: &str = "E2B API on ";
/// The domain of its sandboxes, of those that lead nowhere for anybody else.
const DOMAIN: &str = "compat.test";
/// Where names of that domain lead: clients take the port of HTTPS for granted, and this address is nobody else's.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 83, 83, 83);

/// Its socket, among its data.
const SOCKET: &str = "serve.sock";

/// A server that runs.
pub struct Server {
    child: Child,
    key: String,
    authority: PathBuf,
    resolver: PathBuf,
    /// Removed with it.
    data: tempfile::TempDir,
}

impl Server {
    /// Starts one and waits until it serves.
    pub fn start(program: &Path, cache: &Cache, template: &str) -> Result<Self> {
        let data = tempfile::tempdir().context("no temporary directory")?;
        let tokens = data.path().join("tokens.toml");
        let command = |words: &[&str]| {
            let mut command = bound_command(program);
            command.args(words).stdin(Stdio::null());
            command.env("REKINDLE_DATA", data.path()).env("REKINDLE_CACHE", cache.root());
            command.env("REKINDLE_CONFIG", "/dev/null");
            command
        };
        let words = ["token", "create", "--tenant", "compat", "--scope", "create,exec,files", "--json"];
        let made =
            command(&words).args(["--file", text(&tokens)?]).output().context("cannot start rekindle")?;
        ensure!(made.status.success(), "no token: {}", String::from_utf8_lossy(&made.stderr).trim());
        let made: Value = serde_json::from_slice(&made.stdout).context("the token is not understood")?;
        let key = made["e2b_key"].as_str().context("the token has no key")?.to_owned();

        let certificate = Certificate::make(data.path(), DOMAIN)?;
        names::serve(ADDRESS, DOMAIN)?;
        let resolver = data.path().join("resolv.conf");
        std::fs::write(&resolver, format!("nameserver {ADDRESS}\n")).context("no temporary file")?;
        let mut serve = command(&["serve"]);
        for setting in [
            format!("auth.tokens={}", text(&tokens)?),
            format!("listen.socket={}", text(&data.path().join(SOCKET))?),
            format!("sandbox.default_template={template}"),
            format!("listen.tls_cert={}", text(&certificate.cert)?),
            format!("listen.tls_key={}", text(&certificate.key)?),
            format!("http.listen={ADDRESS}:443"),
            format!("http.domain={DOMAIN}"),
            "telemetry.log=warn".to_owned(),
            // Clients keep a connection for each sandbox, since each has a name.
            "listen.max_connections_per_address=1024".to_owned(),
        ] {
            serve.args(["--set", &setting]);
        }
        let mut child = serve.stdout(Stdio::piped()).spawn().context("cannot start rekindle")?;
        let lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let authority = certificate.authority;
        let server = Self { child, key, authority, resolver, data };
        for line in lines {
            let line = line.context("cannot read what rekindle says")?;
            if line.starts_with(READY) {
                return Ok(server);
            }
        }
        bail!("rekindle serve ended before it served")
    }

    /// What a user sets, and what this machine's names and certificates are.
    pub fn variables(&self) -> [(&'static str, &OsStr); 4] {
        [
            ("E2B_API_KEY", self.key.as_ref()),
            ("E2B_DOMAIN", DOMAIN.as_ref()),
            ("SSL_CERT_FILE", self.authority.as_ref()),
            ("NODE_EXTRA_CA_CERTS", self.authority.as_ref()),
        ]
    }

    /// Where clients of its own find it.
    pub fn address(&self) -> String {
        format!("unix:{}", self.data.path().join(SOCKET).display())
    }

    /// A command to which the names of this server's sandboxes lead where they should: it sees another `resolv.conf`.
    pub fn among_its_names(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        let line = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        command.args(["--mount", "sh", "-c", line, "sh"]).arg(&self.resolver).arg(program);
        command
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM).context("the server is gone")?;
        let status = self.child.wait().context("the server cannot be waited for")?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has ended already, unless the tests could not be run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
