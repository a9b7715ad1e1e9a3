//! `rekindle serve` as a process of its own, on a data directory of a test's. It is killed when dropped, and when
//! the test program goes away, however it does.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_api::client::{Client, Target};
use rekindle_api::v1::{HostStatusRequest, HostStatusResponse, PoolLevel};
use rekindle_test_support::wait::{PATIENCE, until_answer};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::cli::command;
use crate::{leftovers, sweeper};

/// What a server says when it serves.
const READY: &str = "serving on unix:";
const READY_TLS: &str = "serving on https://";
const READY_HTTP: &str = "E2B API on ";

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pid: u32,
    sweeper: std::process::Child,
    data: PathBuf,
    socket: PathBuf,
    /// Kept open: a server that announces something else must not die of it.
    stdout: BufReader<ChildStdout>,
}

/// What a supervisor's process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Memory in KiB.
    pub rss_kib: u64,
    /// Threads.
    pub threads: u64,
    /// Children, the threads' all together.
    pub children: usize,
    /// Entries below its run directory.
    pub files: usize,
}

impl Server {
    /// Starts a server of the template `minimal` on the data in `data`, with these settings (`KEY=VALUE`) besides,
    /// and waits until it serves.
    ///
    /// # Panics
    /// When it does not serve.
    pub async fn start(data: &Path, settings: &[&str]) -> Self {
        let mut server = Self::launch(data, settings);
        server.ready().await;
        server
    }

    /// Starts a server without waiting.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn launch(data: &Path, settings: &[&str]) -> Self {
        Self::launch_with(data, settings, &[])
    }

    /// The same with variables.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn launch_with(data: &Path, settings: &[&str], variables: &[(&str, &Path)]) -> Self {
        let socket = data.join("serve.sock");
        let mut command = command(data, &["serve"]);
        command.envs(variables.iter().copied());
        let own = [
            format!("listen.socket={}", socket.display()),
            "sandbox.default_template=minimal".into(),
            // Tests of many sandboxes wait for their turn on a slow machine.
            "pool.max_queue_wait_s=600".into(),
        ];
        for setting in own.iter().map(String::as_str).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        let log = File::options().append(true).create(true).open(log_of(data)).expect("a log");
        // A person's own configuration is none of a test's.
        command.env("REKINDLE_CONFIG", empty_config(data)).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("started");
        let pid = child.id().expect("it runs");
        let sweeper = sweeper::after_this_process_kill(pid);
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, pid, sweeper, data: data.to_owned(), socket, stdout }
    }

    /// Waits for the line that says it serves.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn ready(&mut self) {
        let said = self.line().await;
        assert_eq!(said, format!("{READY}{}", self.socket.display()), "{}", self.log());
    }

    /// The next line, which names the TCP address.
    ///
    /// # Panics
    /// When it does not.
    pub async fn https(&mut self) -> String {
        let said = self.line().await;
        let address = said.strip_prefix(READY_TLS).unwrap_or_else(|| panic!("{said:?}: {}", self.log()));
        format!("https://{address}")
    }

    /// The next line, which names the address of the HTTP front.
    ///
    /// # Panics
    /// When it does not.
    pub async fn http(&mut self) -> String {
        let said = self.line().await;
        said.strip_prefix(READY_HTTP).unwrap_or_else(|| panic!("{said:?}: {}", self.log())).to_owned()
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.stdout.read_line(&mut line)).await.expect("in time").expect("readable");
        assert!(!line.is_empty(), "the server ended: {}", self.log());
        line.trim_end().to_owned()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its address for `--server`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// All of its log.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let log = fs::read_to_string(log_of(&self.data)).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// A client of it.
    ///
    /// # Panics
    /// When it cannot be connected to.
    pub async fn client(&self) -> Client {
        let target = Target::Socket(self.socket.clone());
        match Client::connect(&target, None).await {
            Ok(client) => client,
            Err(error) => panic!("{error:?}: {}", self.log()),
        }
    }

    /// How full it is.
    ///
    /// # Panics
    /// When it does not say.
    pub async fn status(&self) -> HostStatusResponse {
        self.client().await.host.status(HostStatusRequest {}).await.expect("a status").into_inner()
    }

    /// Waits until the pool has `parked` machines and `prespawned` monitors, and makes no more.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn filled(&self, parked: u32, prespawned: u32) -> PoolLevel {
        let mut client = self.client().await;
        until_answer("the pool is filled", async || {
            let status = client.host.status(HostStatusRequest {}).await.expect("a status").into_inner();
            let level = status.pools.into_iter().next().expect("a pool");
            ((level.parked, level.prespawned, level.filling) == (parked, prespawned, 0)).then_some(level)
        })
        .await
    }

    /// What its process holds now.
    ///
    /// # Panics
    /// When it is gone.
    #[must_use]
    pub fn held(&self) -> Held {
        let proc = PathBuf::from(format!("/proc/{}", self.pid));
        // Root's alone to see: the server lets nobody of its user look into it.
        let count = |dir: PathBuf| fs::read_dir(dir).map_or(0, Iterator::count);
        let status = fs::read_to_string(proc.join("status")).expect("it runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
        };
        let tasks = fs::read_dir(proc.join("task")).expect("it runs").flatten();
        let children = tasks
            .map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default())
            .map(|children| children.split_ascii_whitespace().count())
            .sum();
        let instances = leftovers::supervisors(&self.data);
        let files = instances.iter().map(|dir| fs::read_dir(dir).map_or(0, Iterator::count)).sum();
        let (rss_kib, threads) = (field("VmRSS:"), field("Threads:"));
        Held { descriptors: count(proc.join("fd")), rss_kib, threads, children, files }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid.try_into().expect("a pid")), signal).expect("it runs");
    }

    /// Kills it without a word. Returns the machines it had.
    ///
    /// # Panics
    /// When it is gone already.
    pub async fn kill(mut self) -> BTreeSet<String> {
        self.signal(Signal::SIGKILL);
        self.gone().await;
        leftovers::machines(&self.data)
    }

    /// Asks it to end and waits until it has, in order and with nothing left of it and of `machines`.
    ///
    /// # Panics
    /// When it fails, or leaves something.
    pub async fn stop(self, machines: &BTreeSet<String>) {
        let (data, socket) = (self.data.clone(), self.socket.clone());
        self.signal(Signal::SIGTERM);
        self.ended_well().await;
        assert!(!socket.exists(), "the socket is removed");
        leftovers::find(&data, machines, &BTreeSet::new()).assert_none();
    }

    /// Waits for its end, which is in order.
    ///
    /// # Panics
    /// When it is not.
    pub async fn ended_well(mut self) {
        let status = self.gone().await;
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it goes on and on.
    pub async fn gone(&mut self) -> ExitStatus {
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => {
                // At once: the number may soon be another process's.
                self.dismiss();
                status.expect("waited for")
            }
            Err(_) => panic!("the server does not end: {}", self.log()),
        }
    }

    fn dismiss(&mut self) {
        let _ = self.sweeper.kill();
        let _ = self.sweeper.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The child kills itself: `kill_on_drop`.
        self.dismiss();
        if std::thread::panicking() {
            eprintln!("the end of the server's log:\n{}", self.log());
        }
    }
}

fn log_of(data: &Path) -> PathBuf {
    data.join("serve.log")
}

fn empty_config(data: &Path) -> PathBuf {
    let path = data.join("empty.toml");
    fs::write(&path, "").expect("written");
    path
}
