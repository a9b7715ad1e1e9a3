//! The process that serves connections: who it is, that it does what the policy says, and what its death means. The guest
//! is this test, gate, worker and servers are real.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use prometheus_client::metrics::counter::Counter;
use rekindle::network::{ConnectionState, Egress, Gate, Gateway, Worker, WorkerError, WorkerOptions};
use rekindle_protocol::frame;
use rekindle_protocol::wire::egress_verdict::Verdict;
use rekindle_protocol::wire::{EgressRequest, EgressVerdict, egress_request};
use rekindle_test_support::echo::echo;
use rekindle_test_support::skip;
use rekindle_test_support::wait::{in_time, until, until_answer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

mod cassette;
mod hostile;
mod raw;

/// The execution that connections are made for.
const EXECUTION: u64 = 3;

/// One sandbox's network, with a worker.
struct Place {
    egress: Egress,
    worker: Worker,
    restarts: Counter,
    gate: Arc<Gate>,
    streams: mpsc::Sender<DuplexStream>,
}

impl Place {
    /// Under the policy `echo`, which allows `echo.example.com:7` with this budget; `nothing` allows another.
    async fn new(budget: &str) -> Self {
        let rule = |host: &str| {
            format!("mode = \"allow\"\nallow = [{{ host = \"{host}\", ports = [7], protocol = \"tcp\" }}]\n")
        };
        let policies = format!(
            "[echo]\n{}budget = {{ {budget} }}\n[nothing]\n{}",
            rule("echo.example.com"),
            rule("other.example.com"),
        );
        let hosts = [("echo.example.com".to_owned(), echo().await)].into();
        let egress = Egress::new(&toml::from_str(&policies).expect("policies"), &hosts).expect("a network");
        Self::of(egress, "echo").await
    }

    /// One under this policy of a network that has no worker yet.
    async fn of(egress: Egress, policy: &str) -> Self {
        let restarts = Counter::default();
        let options =
            WorkerOptions { program: env!("CARGO_BIN_EXE_rekindle").into(), restarts: restarts.clone() };
        let worker = Worker::start(options, &egress, &Gateway::default()).await.expect("a worker");
        let egress = egress.through(worker.clone());
        let gate = Arc::new(egress.gate(egress.policy(policy).expect("the policy"), None));
        gate.journal().begin(EXECUTION);
        let (streams, opened) = mpsc::channel(8);
        tokio::spawn(Arc::clone(&gate).serve(opened, Arc::default()));
        Self { egress, worker, restarts, gate, streams }
    }

    /// Asks for a connection; nothing where it is reset without a word.
    async fn dial(&self, name: &str) -> Option<(DuplexStream, Verdict)> {
        let mut guest = self.ask(name, 7).await?;
        let verdict = in_time("a verdict", frame::read::<EgressVerdict>(&mut guest)).await.ok()??;
        Some((guest, verdict.verdict?))
    }

    /// Says whom it wants to talk to, and does not wait.
    async fn ask(&self, name: &str, port: u32) -> Option<DuplexStream> {
        let (mut guest, host) = tokio::io::duplex(4096);
        self.streams.send(host).await.expect("served");
        let target = Some(egress_request::Target::Name(name.to_owned()));
        let request = EgressRequest { target, port, execution: EXECUTION };
        frame::write(&mut guest, &request).await.ok()?;
        Some(guest)
    }

    /// A connection that was let through.
    async fn connect(&self) -> DuplexStream {
        match self.dial("echo.example.com").await {
            Some((stream, Verdict::Accepted(_))) => stream,
            other => panic!("{:?}", other.map(|(_, verdict)| verdict)),
        }
    }

    /// Why there is no connection.
    async fn denied(&self, name: &str) -> String {
        match self.dial(name).await {
            Some((_, Verdict::Denied(denied))) => denied.reason,
            other => panic!("{:?}", other.map(|(_, verdict)| verdict)),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.worker.pid().expect("a worker").try_into().expect("a pid"))
    }

    fn status(&self) -> BTreeMap<String, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let fields = status.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    }

    /// Kills the worker and waits for the next.
    async fn kill(&self) {
        let before = self.pid();
        kill(before, Signal::SIGKILL).expect("killed");
        until("another worker", || {
            self.worker.pid().is_some_and(|pid| pid != before.as_raw().unsigned_abs())
        })
        .await;
    }
}

async fn say(stream: &mut DuplexStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("said");
    let mut heard = vec![0; text.len()];
    in_time("an echo", stream.read_exact(&mut heard)).await.expect("heard");
    String::from_utf8(heard).expect("text")
}

#[tokio::test]
async fn the_worker_has_no_privileges_and_no_secrets_in_its_environment() {
    let place = Place::new("connections = 9").await;
    let mut stream = place.connect().await;
    assert_eq!(say(&mut stream, "hello").await, "hello");
    let status = place.status();
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!((status["NoNewPrivs"].as_str(), status["Name"].as_str()), ("1", "rekindle-net"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", place.pid())).expect("its limits");
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("a limit");
    assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
    let of = |file: &str| fs::read(format!("/proc/{}/{file}", place.pid()));
    let arguments = String::from_utf8(of("cmdline").expect("arguments")).expect("text");
    assert!(arguments.contains("network-worker"), "{arguments}");
    if !nix::unistd::geteuid().is_root() {
        skip!("becoming another user needs root");
    }
    assert_eq!(of("environ").expect("an environment"), b"");
    assert_eq!(status["Groups"], "");
    for ids in ["Uid", "Gid"] {
        let ids: Vec<u32> = status[ids].split_whitespace().map(|id| id.parse().expect("an id")).collect();
        assert!(ids.iter().all(|id| *id == ids[0] && *id > 1_000_000_000), "{ids:?}");
    }
    // What is in its memory is root's to see.
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(fs::metadata(format!("/proc/{}/mem", place.pid())).expect("its memory").uid(), 0);
}

#[tokio::test]
async fn what_became_of_a_connection_is_in_the_journal_before_the_guest_knows() {
    let place = Place::new("connections = 9").await;
    assert_eq!(place.denied("evil.example.com").await, "not_allowed");
    let so_far = place.gate.journal().so_far(EXECUTION);
    assert_eq!((so_far.connections, so_far.denied), (1, 1));
    assert_eq!(so_far.denials[0].host, "evil.example.com");
    let mut stream = place.connect().await;
    for round in 1..=20 {
        assert_eq!(say(&mut stream, "hello").await, "hello");
        let so_far = place.gate.journal().so_far(EXECUTION);
        assert_eq!((so_far.connections, so_far.up, so_far.down), (2, 5 * round, 5 * round));
    }
    // An end is passed on as one, in both directions.
    stream.shutdown().await.expect("said all");
    assert_eq!(in_time("the end", stream.read(&mut [0; 8])).await.expect("no failure"), 0);
    until("it is closed", || place.gate.journal().after(2).is_some()).await;
    assert_eq!((place.gate.summary().up, place.gate.summary().down), (100, 100));
}

#[tokio::test]
async fn a_killed_worker_cuts_its_connections_and_the_next_knows_what_was_spent() {
    let place = Place::new("bytes_up = 12").await;
    let mut stream = place.connect().await;
    assert_eq!(say(&mut stream, "hello").await, "hello");
    kill(place.pid(), Signal::SIGKILL).expect("killed");
    assert_eq!(in_time("it is cut", stream.read(&mut [0; 8])).await.unwrap_or(0), 0);
    // Whatever is tried meanwhile is either reset or served by the next one, under the same budget.
    let mut again = until_answer("another connection", async || match place.dial("echo.example.com").await {
        Some((stream, Verdict::Accepted(_))) => Some(stream),
        _ => None,
    })
    .await;
    assert_eq!(place.restarts.get(), 1);
    assert_eq!(say(&mut again, "hello").await, "hello");
    let so_far = place.gate.journal().so_far(EXECUTION);
    assert_eq!((so_far.connections, so_far.denied, so_far.up, so_far.down), (2, 0, 10, 10));
    // Five of twelve bytes were spent before: of five more now two get through.
    again.write_all(b"hello").await.expect("said");
    let mut last = Vec::new();
    let _ = in_time("it is cut", again.read_to_end(&mut last)).await;
    assert!(b"he".starts_with(&last), "{last:?}");
    until("two bytes more are counted", || place.gate.journal().so_far(EXECUTION).up == 12).await;
    place.kill().await;
    assert_eq!(place.denied("echo.example.com").await, "budget_spent", "twelve bytes were allowed");

    let place = Place::new("connections = 3").await;
    for _ in 0..3 {
        let _connection = place.connect().await;
        place.kill().await;
    }
    assert_eq!(place.denied("echo.example.com").await, "budget_spent", "three connections were allowed");
    assert_eq!(place.restarts.get(), 3);
}

#[tokio::test]
async fn another_policy_holds_once_it_is_said_to_be_in_force_and_after_a_restart() {
    let place = Place::new("connections = 99").await;
    let mut stream = place.connect().await;
    for _ in 0..10 {
        let policy = |name: &str| place.egress.policy(name).expect("the policy");
        place.gate.set_policy(policy("nothing"));
        place.gate.in_force().await;
        assert_eq!(place.denied("echo.example.com").await, "not_allowed");
        place.gate.set_policy(policy("echo"));
        place.gate.in_force().await;
        drop(place.connect().await);
    }
    assert_eq!(in_time("it is cut", stream.read(&mut [0; 8])).await.unwrap_or(0), 0);
    place.gate.set_policy(place.egress.policy("nothing").expect("the policy"));
    place.kill().await;
    assert_eq!(place.denied("echo.example.com").await, "not_allowed");
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_told_as_that() {
    let options = WorkerOptions { program: "/bin/true".into(), restarts: Counter::default() };
    let failed = Worker::start(options, &Egress::default(), &Gateway::default()).await;
    assert!(matches!(failed, Err(WorkerError::Silent { .. })), "{failed:?}");
    let options = WorkerOptions { program: "/no/such/program".into(), restarts: Counter::default() };
    let failed = Worker::start(options, &Egress::default(), &Gateway::default()).await;
    assert!(matches!(failed, Err(WorkerError::Program(_))), "{failed:?}");
    // And the worker without a supervisor says so.
    let alone = std::process::Command::new(env!("CARGO_BIN_EXE_rekindle"))
        .args(["network-worker", "--control=0"])
        .output()
        .expect("it ran");
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(!alone.status.success() && said.contains("hint: `rekindle serve`"), "{said}");
}

#[tokio::test]
async fn a_pause_ends_connections_also_where_the_server_is_waited_for() {
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let policies = "[any]\nmode = \"full\"\n";
    let hosts = [("echo.example.com".to_owned(), server.local_addr().expect("an address"))].into();
    let egress = Egress::new(&toml::from_str(policies).expect("policies"), &hosts).expect("a network");
    let place = Place::of(egress, "any").await;
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", place.pid())).map(Iterator::count).ok();
    let before = descriptors();
    // One has said all, and its server says nothing. The other says more than its server takes.
    let mut silent = place.connect().await;
    silent.shutdown().await.expect("said all");
    let (mut one, _) = in_time("a connection", server.accept()).await.expect("accepted");
    assert_eq!(in_time("the end", one.read(&mut [0])).await.expect("no failure"), 0);
    let mut stuck = place.connect().await;
    let _other = in_time("a connection", server.accept()).await.expect("accepted");
    let filling = async { while stuck.write_all(&[0; 4096]).await.is_ok() {} };
    let filled = tokio::time::timeout(std::time::Duration::from_secs(2), filling).await;
    assert!(filled.is_err(), "a server that does not read took everything");

    place.gate.pause();
    for stream in [&mut silent, &mut stuck] {
        assert_eq!(in_time("it is cut", stream.read(&mut [0])).await.unwrap_or(0), 0);
    }
    until("both are closed", || {
        let views: Vec<_> = std::iter::successors(place.gate.journal().after(0), |view| {
            place.gate.journal().after(view.revision)
        })
        .collect();
        views.len() == 2 && views.iter().all(|view| matches!(view.state, ConnectionState::Closed { .. }))
    })
    .await;
    assert!(place.dial("echo.example.com").await.is_none(), "one is let through during it");
    place.gate.unpause();
    let _again = place.connect().await;
    place.gate.pause();
    if before.is_none() {
        skip!("whether the worker still has sockets is root's to see");
    }
    until("the worker has hung up", || descriptors() <= before).await;
}
