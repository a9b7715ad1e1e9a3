//! What an execution through the agent costs over a bare `posix_spawn` with pipes of the same program.
//!
//! `cargo bench -p rekindle-agent` runs both alternately in one run and prints medians and their ratio. As
//! root it uses a cgroup v2 hierarchy where one is mounted, as a guest does.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rekindle::agent::{AgentClient, ExecuteRequest, Program, RestoreRequest};

const PROGRAM: &str = "/bin/true";
const WARM_UP: usize = 50;
const ROUNDS: usize = 500;

/// The agent process, its group and its directory; all go when the benchmark ends.
struct Agent {
    process: Child,
    cgroup: Option<PathBuf>,
    _home: tempfile::TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(cgroup) = &self.cgroup {
            let _ = fs::remove_dir(cgroup.join("sandbox"));
            let _ = fs::remove_dir(cgroup);
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (_agent, client) = start().await;
        for _ in 0..WARM_UP {
            bare();
            through_agent(&client).await;
        }
        let (mut alone, mut agent) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(bare());
            agent.push(through_agent(&client).await);
        }
        report(&mut alone, &mut agent);
    });
}

fn report(alone: &mut [Duration], agent: &mut [Duration]) {
    alone.sort_unstable();
    agent.sort_unstable();
    let at = |times: &[Duration], percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    println!("{ROUNDS} rounds of {PROGRAM}, alternating, microseconds");
    println!("{:<24}{:>10}{:>10}", "", "p50", "p95");
    println!("{:<24}{:>10.0}{:>10.0}", "posix_spawn + pipes", at(alone, 50), at(alone, 95));
    println!("{:<24}{:>10.0}{:>10.0}", "through the agent", at(agent, 50), at(agent, 95));
    println!("{:<24}{:>10.2}{:>10.2}", "ratio", at(agent, 50) / at(alone, 50), at(agent, 95) / at(alone, 95));
}

/// The least any caller would have to do.
fn bare() -> Duration {
    let start = Instant::now();
    let mut child = Command::new(PROGRAM)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut output = Vec::new();
    child.stdout.take().expect("a pipe").read_to_end(&mut output).expect("read");
    child.stderr.take().expect("a pipe").read_to_end(&mut output).expect("read");
    assert!(child.wait().expect("it ends").success());
    start.elapsed()
}

async fn through_agent(client: &AgentClient) -> Duration {
    let start = Instant::now();
    let argv = vec![PROGRAM.into()];
    let program = Some(Program::Command(rekindle::agent::Command { argv }));
    let finished = client.run(ExecuteRequest { program, ..Default::default() }).await.expect("it runs");
    assert_eq!(finished.outcome, rekindle::agent::Outcome::Exited(0));
    start.elapsed()
}

async fn start() -> (Agent, AgentClient) {
    let binary = std::env::var_os("REKINDLE_AGENT")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_rekindle-agent")), PathBuf::from);
    let home = tempfile::tempdir().expect("a directory");
    let cgroup = cgroup();
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let root = is_root();
    let process = Command::new("/bin/sh")
        .args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh"])
        .arg(&binary)
        .arg("transport=fd:3")
        .arg(format!("user={}", if root { "nobody".into() } else { user() }))
        .arg("home=/")
        .arg(format!("state={}", home.path().display()))
        .arg(format!("cgroup={}", cgroup.as_ref().map_or("none".into(), |dir| dir.display().to_string())))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("the agent starts");
    let agent = Agent { process, cgroup, _home: home };
    ours.set_nonblocking(true).expect("non-blocking");
    let stream = tokio::net::UnixStream::from_std(ours).expect("a stream");
    let client = AgentClient::connect(stream, Duration::from_secs(10)).await.expect("the agent answers");
    let entropy = vec![7u8; 32].into();
    let request = RestoreRequest { entropy, ..Default::default() };
    client.restore(request, Duration::from_secs(10)).await.expect("the gate opens");
    (agent, client)
}

/// A group of our own in the first cgroup v2 hierarchy that is mounted and may be written.
fn cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, fstype) = (fields.nth(1)?, fields.next()?);
        (fstype == "cgroup2").then(|| PathBuf::from(path))
    })?;
    let dir = root.join(format!("rekindle-bench-{}", std::process::id()));
    fs::create_dir(&dir).ok().map(|()| dir)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "nobody".into())
}
