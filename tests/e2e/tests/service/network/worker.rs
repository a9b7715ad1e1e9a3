//! The process that serves connections dies: programs see their connections end, the next ones work, and the supervisor
//! and its sandboxes do not notice otherwise.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle_e2e::site::Site;
use rekindle_test_support::wait::until_some;

use super::gate::Gate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_ends_connections_and_the_next_one_serves() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }], budget = { requests = 2 }";
    let gate = Gate::open(lab, "minimal", rules, &[("plain.example.com", site.address())]).await;
    let worker = until_some("a worker", || gate.workers().first().copied()).await;
    let sandbox = gate.sandbox("test").await;

    // It asks, holds the connection, and says so; then it waits for the end of it.
    let source = "
import sys
one = http.client.HTTPConnection('plain.example.com', 80, timeout=200)
print(ask('plain.example.com', connection=one))
open('/tmp/asked', 'w').close()
try:
    print(len(one.sock.recv(1)) if one.sock else 'closed')
except ConnectionResetError:
    print('reset')
";
    let holding = gate.python(&sandbox, source);
    let killing = async {
        gate.shell(&sandbox, "while [ ! -e /tmp/asked ]; do sleep 0.05; done", "").await;
        kill(Pid::from_raw(worker.try_into().expect("a pid")), Signal::SIGKILL).expect("killed");
    };
    let (held, ()) = tokio::join!(holding, killing);
    assert_eq!(held[0], "200 hello");
    assert!(["0", "reset", "closed"].contains(&held[1].as_str()), "{held:?}");
    until_some("another worker", || gate.workers().into_iter().find(|pid| *pid != worker)).await;

    let again = "print(ask('plain.example.com'))\nprint(ask('plain.example.com'))\n";
    assert_eq!(gate.python(&sandbox, again).await, ["200 hello", "403 budget_spent"], "one of two was spent");
    assert_eq!(site.connections(), 2);
    gate.close().await;
}
