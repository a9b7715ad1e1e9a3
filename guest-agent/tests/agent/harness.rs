//! Starts agents, and says why it cannot where the machine does not allow it.
//!
//! The binary under test is `REKINDLE_AGENT` if that is set, otherwise the one Cargo has just built.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{User, geteuid};
use rekindle::agent::{
    AgentClient, AgentError, Code, Command, EnvVar, ExecuteRequest, Finished, GuestPath, KillScope, Language,
    Program, RestoreRequest, SandboxLimits, TransferPatience,
};
use rekindle_test_support::wait::{until, until_answer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The programs of warm interpreters, as an image has them.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rootfs/interpreters");

/// A deadline that only a hang reaches.
pub const SOON: Duration = Duration::from_secs(120);
/// The same for transfers.
pub const PATIENCE: TransferPatience = TransferPatience { stall: SOON, total: Duration::from_secs(600) };

/// Starts an agent from a [`Setup`], or ends the test as a reported skip.
#[macro_export]
macro_rules! agent {
    () => {
        $crate::agent!($crate::harness::Setup::default())
    };
    ($setup:expr) => {
        match $setup.start().await {
            Ok(agent) => agent,
            Err(reason) => rekindle_test_support::skip!("{reason}"),
        }
    };
}

/// What an agent is started with.
pub struct Setup {
    /// Who its executions run as.
    pub user: &'static str,
    /// Its own environment.
    pub env: Vec<(&'static str, String)>,
    /// Open the restore gate.
    pub gate: bool,
    /// Limits and variables the gate brings.
    pub restore: RestoreRequest,
    /// Place executions in cgroups where the machine has them.
    pub cgroup: bool,
    /// Namespaces of its own, as `unshare` calls them.
    pub unshare: Vec<&'static str>,
    /// Shell commands run before it, inside its namespaces. `$HOME` is the user's home.
    pub before: &'static str,
    /// What carries the bytes.
    pub transport: Transport,
    /// Words it is started with beside the usual ones.
    pub words: Vec<&'static str>,
}

/// What carries the bytes between a test and its agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One end of a socket pair, which the agent inherits.
    Pair,
    /// A unix socket the agent listens on: connections come and go.
    Listen,
    /// A terminal standing in for a serial port: there are no connections, only bytes.
    Terminal,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            user: "nobody",
            env: Vec::new(),
            gate: true,
            restore: restore_request(),
            cgroup: true,
            unshare: Vec::new(),
            before: ":",
            transport: Transport::Pair,
            words: Vec::new(),
        }
    }
}

/// A request that opens the gate and touches nothing of the machine but its entropy.
pub fn restore_request() -> RestoreRequest {
    let mut entropy = vec![0; 64];
    getrandom::fill(&mut entropy).expect("random bytes");
    RestoreRequest {
        entropy: entropy.into(),
        limits: Some(SandboxLimits::default()),
        ..RestoreRequest::default()
    }
}

impl Setup {
    /// Starts the agent and connects to it. What goes wrong because of the machine is a reason to skip.
    pub async fn start(self) -> Result<Agent, String> {
        if !geteuid().is_root() {
            return Err("starting programs as another user needs root".to_owned());
        }
        let user = User::from_name(self.user).expect("a user database");
        let user = user.ok_or_else(|| format!("this machine has no user {:?}", self.user))?;
        if !self.unshare.is_empty() && !can_unshare(&self.unshare) {
            return Err(format!("unshare {} is not allowed here", self.unshare.join(" ")));
        }
        let dir = TempDir::with_prefix("rekindle-agent-").expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("opened to the user");
        let home = dir.path().join("home");
        let state = dir.path().join("state");
        for path in [&home, &state] {
            fs::create_dir(path).expect("a directory");
        }
        chown(&home, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("the user's own");
        let group = if self.cgroup { Group::create() } else { None };
        let socket = dir.path().join("socket");
        let line = match self.transport {
            Transport::Terminal => Some(Line::open()?),
            Transport::Pair | Transport::Listen => None,
        };
        let transport = match (self.transport, &line) {
            (_, Some(line)) => format!("tty:{}", line.name.display()),
            (Transport::Listen, None) => format!("unix:{}", socket.display()),
            (_, None) => "fd:3".to_owned(),
        };
        let words = [
            format!("transport={transport}"),
            format!("user={}", self.user),
            format!("home={}", home.display()),
            format!("state={}", state.display()),
            format!("cgroup={}", group.as_ref().map_or(Path::new("none"), |group| &group.path).display()),
            format!("programs={PROGRAMS}"),
        ];
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        // The shell moves the socket out of the way of standard input.
        let script = format!("{}; exec \"$@\" 3<&0 0</dev/null", self.before);
        let mut process = match self.unshare.is_empty() {
            true => Process::new("sh"),
            false => {
                let mut process = Process::new("unshare");
                process.args(&self.unshare).arg("sh");
                process
            }
        };
        process.args(["-c", &script, "sh"]).arg(binary()).args(words).args(&self.words);
        process.env("HOME", &home).envs(self.env.clone());
        process.stdin(Stdio::from(OwnedFd::from(theirs)));
        process.stderr(File::create(dir.path().join("log")).expect("a log"));
        let process = process.spawn().expect("the agent starts");

        let mut running = Running { process, group, dir };
        let client = match (self.transport, &line) {
            (_, Some(line)) => AgentClient::connect(line.end(), SOON).await,
            (Transport::Listen, None) => AgentClient::connect(dial(&socket, &mut running).await, SOON).await,
            (_, None) => {
                ours.set_nonblocking(true).expect("a socket");
                AgentClient::connect(UnixStream::from_std(ours).expect("a socket"), SOON).await
            }
        };
        let client = client.unwrap_or_else(|error| panic!("no session: {error:?}\n{}", running.log()));
        if self.gate {
            match client.restore(self.restore, SOON).await {
                Ok(()) => {}
                Err(AgentError::Refused { message, .. }) if message.contains("not permitted") => {
                    return Err(format!("this machine does not let its entropy be fed: {message}"));
                }
                Err(error) => panic!("the gate does not open: {error:?}"),
            }
        }
        Ok(Agent { client, home, socket, line, uid: user.uid.as_raw(), running })
    }
}

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("REKINDLE_AGENT")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_rekindle-agent")), PathBuf::from)
}

/// A running agent with a connection.
pub struct Agent {
    /// The connection.
    pub client: AgentClient,
    /// The home of its user, on this machine.
    pub home: PathBuf,
    /// Where it listens, if it does.
    socket: PathBuf,
    /// The terminal it sits on, if it does.
    line: Option<Line>,
    /// Its user.
    pub uid: u32,
    running: Running,
}

impl Agent {
    /// Runs a program to its end.
    pub async fn run(&self, request: ExecuteRequest) -> Finished {
        let finished = tokio::time::timeout(3 * SOON, self.client.run(request)).await.expect("no hang");
        finished.unwrap_or_else(|error| panic!("{error:?}\n{}", self.running.log()))
    }

    /// Runs a line of shell and returns its standard output.
    pub async fn shell(&self, line: &str) -> String {
        let finished = self.run(shell(line)).await;
        assert_eq!(finished.outcome, rekindle::agent::Outcome::Exited(0), "{line}: {finished:?}");
        finished.stdout.text
    }

    /// Whether a program is there, as its executions see it.
    pub async fn has(&self, program: &str) -> bool {
        let finished = self.run(shell(&format!("command -v {program}"))).await;
        finished.outcome == rekindle::agent::Outcome::Exited(0)
    }

    /// Asserts that it still answers.
    pub async fn answers(&self) {
        self.client.ping(SOON).await.expect("the agent answers");
        assert_eq!(self.shell("echo alive").await, "alive\n");
    }

    /// Whether kills reach everything.
    pub fn kills_everything(&self) -> bool {
        self.client.hello().capabilities.kill_scope == KillScope::Cgroup
    }

    /// Process ids, on this machine, whose command line holds `marker`.
    pub fn processes(&self, marker: &str) -> Vec<u32> {
        all_processes().filter(|pid| command_line(*pid).is_some_and(|line| line.contains(marker))).collect()
    }

    /// Those of them that this agent has started itself: others may be another test's.
    pub fn children(&self, marker: &str) -> Vec<u32> {
        let parent = format!("PPid:\t{}", self.pid());
        let ours = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status"));
            status.is_ok_and(|status| status.lines().any(|line| line == parent))
        };
        self.processes(marker).into_iter().filter(ours).collect()
    }

    /// Asserts that soon no process is left whose command line holds `marker`.
    pub async fn soon_gone(&self, marker: &str) {
        until(&format!("everything with {marker} is gone"), || self.processes(marker).is_empty()).await;
    }

    /// The agent's own process id on this machine.
    pub fn pid(&self) -> u32 {
        let outer = self.running.process.id();
        // Behind `unshare --fork` the agent is a child.
        if command_line(outer).is_some_and(|line| line.starts_with("unshare")) {
            let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
            let children = children.expect("the children of unshare");
            return children.split_whitespace().next().expect("a child").parse().expect("a process id");
        }
        outer
    }

    /// A number of `/proc/<agent>/status`, in KiB.
    pub fn status_kib(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a running agent");
        let line = status.lines().find(|line| line.starts_with(key)).expect("the key is there");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }

    /// Forgets the highest memory use so far.
    pub fn reset_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.pid()), "5").expect("the peak is reset");
    }

    /// Another connection to an agent that listens.
    pub async fn dial(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.expect("the agent listens")
    }

    /// This end of the terminal an agent sits on, for a new host. Dropping it hangs nothing up.
    pub fn line(&self) -> LineEnd {
        self.line.as_ref().expect("a terminal").end()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.running.process.try_wait().expect("a child").is_none()
    }
}

/// One host's view of a terminal, until the next host takes it up: as with a serial port behind a socket, a
/// new connection ends the old one, while the bytes on the line stay where they are.
pub struct LineEnd {
    io: Join<pipe::Receiver, pipe::Sender>,
    number: u64,
    newest: Arc<AtomicU64>,
}

impl LineEnd {
    fn is_over(&self) -> bool {
        self.newest.load(Ordering::SeqCst) != self.number
    }
}

impl AsyncRead for LineEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over() { Poll::Ready(Ok(())) } else { Pin::new(&mut self.io).poll_read(cx, out) }
    }
}

impl AsyncWrite for LineEnd {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_over() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

/// A terminal whose other end is the agent's.
struct Line {
    name: PathBuf,
    newest: Arc<AtomicU64>,
    master: OwnedFd,
    /// Held so that the terminal is never hung up while the agent starts.
    _slave: OwnedFd,
}

impl Line {
    fn open() -> Result<Self, String> {
        let pty = openpty(None, None).map_err(|error| format!("there are no terminals here: {error}"))?;
        // A serial port does not echo; a new terminal does until somebody says otherwise.
        let mut settings = tcgetattr(&pty.slave).expect("settings");
        cfmakeraw(&mut settings);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &settings).expect("a raw terminal");
        let flags = OFlag::from_bits_retain(fcntl(&pty.master, FcntlArg::F_GETFL).expect("flags"));
        fcntl(&pty.master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).expect("no blocking");
        let name = nix::unistd::ttyname(&pty.slave).expect("a name");
        Ok(Self { name, newest: Arc::default(), master: pty.master, _slave: pty.slave })
    }

    fn end(&self) -> LineEnd {
        let end = || self.master.try_clone().expect("a descriptor");
        let reader = pipe::Receiver::from_owned_fd_unchecked(end()).expect("a reader");
        let writer = pipe::Sender::from_owned_fd_unchecked(end()).expect("a writer");
        let number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        LineEnd { io: tokio::io::join(reader, writer), number, newest: self.newest.clone() }
    }
}

/// What must be taken down again.
struct Running {
    process: Child,
    group: Option<Group>,
    dir: TempDir,
}

impl Running {
    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agent said:\n{}", self.log());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        drop(self.group.take());
    }
}

/// A cgroup v2 directory for one agent, where the machine has them.
struct Group {
    path: PathBuf,
}

impl Group {
    fn create() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind) = (fields.next()?, fields.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(path))
        })?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("rekindle-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        // A killed process stays in its group until it has been collected.
        let deadline = Instant::now() + Duration::from_secs(5);
        while remove_groups(&self.path).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn remove_groups(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

async fn dial(socket: &Path, running: &mut Running) -> UnixStream {
    until_answer("the agent listens", async || {
        let dialed = UnixStream::connect(socket).await;
        let ended = running.process.try_wait().expect("a child").is_some();
        assert!(dialed.is_ok() || !ended, "{dialed:?}\n{}", running.log());
        dialed.ok()
    })
    .await
}

fn can_unshare(flags: &[&str]) -> bool {
    Process::new("unshare")
        .args(flags)
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

/// A number of seconds nobody else sleeps for.
pub fn marker() -> String {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("random bytes");
    format!("98{:010}", u32::from_ne_bytes(bytes))
}

/// A line of shell, with a time limit that only a hang reaches.
pub fn shell(line: &str) -> ExecuteRequest {
    request(Program::Shell(line.to_owned()))
}

/// A command, with the same limit.
pub fn command(argv: &[&str]) -> ExecuteRequest {
    let argv = argv.iter().map(|word| word.as_bytes().to_vec().into()).collect();
    request(Program::Command(Command { argv }))
}

/// Source text, with the same limit.
pub fn code(language: Language, source: &str) -> ExecuteRequest {
    request(Program::Code(Code { language: language.into(), source: source.to_owned() }))
}

fn request(program: Program) -> ExecuteRequest {
    ExecuteRequest {
        program: Some(program),
        timeout_millis: 2 * SOON.as_millis() as u64,
        ..ExecuteRequest::default()
    }
}

/// The request with another time limit.
pub fn within(limit: Duration, request: ExecuteRequest) -> ExecuteRequest {
    ExecuteRequest { timeout_millis: limit.as_millis() as u64, ..request }
}

/// An environment variable.
pub fn var(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}

/// A path that is one.
pub fn path(path: impl AsRef<[u8]>) -> GuestPath {
    GuestPath::new(path.as_ref().to_vec()).expect("a path")
}
