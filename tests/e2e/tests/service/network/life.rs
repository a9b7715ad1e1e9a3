//! What a sandbox's life means for its network: it works after a pause, in every clone of a template and in a machine that
//! has waited for it, and ends with it. What is open when it is paused is cut.

use rekindle_api::v1::{
    ExecuteRequest, PauseSandboxRequest, ResumeSandboxRequest, SandboxStartKind, StartExecutionRequest,
};
use rekindle_e2e::site::Site;
use rekindle_test_support::wait::{PATIENCE, until, until_answer};

use super::gate::{ASK, Gate};
use crate::calls::{destroy, python, time};

const ASK_ONCE: &str = "print(ask('plain.example.com'))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_works_after_a_pause_and_in_the_next_clone_of_the_template() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    let gate = Gate::open_parked(lab, "minimal", rules, &[("plain.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    assert_eq!(sandbox.network, "test");
    let start = sandbox.start.as_ref().expect("how it started");
    assert_eq!(start.kind(), SandboxStartKind::Parked, "{start:?}");
    assert_eq!(gate.python(&sandbox, ASK_ONCE).await, ["200 hello"]);

    let (mut sandboxes, id) = (gate.client.sandboxes.clone(), sandbox.id.clone());
    sandboxes.pause(PauseSandboxRequest { sandbox: id.clone(), ..Default::default() }).await.expect("paused");
    // Another one begins while the first stands still, and neither takes anything from the other.
    let second = gate.sandbox("test").await;
    assert_eq!(gate.python(&second, ASK_ONCE).await, ["200 hello"]);
    sandboxes.resume(ResumeSandboxRequest { sandbox: id.clone() }).await.expect("resumed");
    assert_eq!(gate.python(&sandbox, ASK_ONCE).await, ["200 hello"]);

    destroy(&gate.client, &id).await;
    let (third, closed) = (gate.sandbox("test").await, gate.sandbox("none").await);
    assert_eq!(gate.python(&third, ASK_ONCE).await, ["200 hello"]);
    assert_eq!(gate.python(&closed, ASK_ONCE).await, ["403 network_off"]);
    assert_eq!(site.connections(), 4);
    gate.close().await;
}

/// Asks, holds the connection until it is cut, and asks again.
const HOLD: &str = r#"
one = http.client.HTTPConnection("plain.example.com", 80, timeout=2000)
print(ask("plain.example.com", connection=one))
open("/tmp/held", "w").close()
try:
    end = one.sock.recv(1)
except ConnectionResetError:
    end = b""
with open("/tmp/again.new", "w") as file:
    file.write(f"{len(end)} {ask('plain.example.com')}")
import os
os.rename("/tmp/again.new", "/tmp/again")
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_cuts_what_a_detached_program_holds_and_it_dials_again() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    let gate = Gate::open(lab, "minimal", rules, &[("plain.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    let hold = async || {
        gate.shell(&sandbox, "rm -f /tmp/held /tmp/again", "").await;
        let request = ExecuteRequest {
            sandbox: sandbox.id.clone(),
            program: Some(python(&format!("{ASK}\n{HOLD}"))),
            timeout: time(PATIENCE * 5),
            ..ExecuteRequest::default()
        };
        let request = StartExecutionRequest { request: Some(request), ..StartExecutionRequest::default() };
        gate.client.executions.clone().start(request).await.expect("started");
        gate.shell(&sandbox, "while [ ! -e /tmp/held ]; do sleep 0.05; done", "").await.printed();
        assert_eq!(site.open_connections(), 1);
    };
    let pause = async |without_memory| {
        let request = PauseSandboxRequest { sandbox: sandbox.id.clone(), without_memory };
        gate.client.sandboxes.clone().pause(request).await.expect("paused");
        // The server does not wait for a program that stands still.
        until("the server is hung up on", || site.open_connections() == 0).await;
    };
    let resume = async || {
        let request = ResumeSandboxRequest { sandbox: sandbox.id.clone() };
        gate.client.sandboxes.clone().resume(request).await.expect("resumed");
    };

    hold().await;
    pause(false).await;
    assert_eq!(site.connections(), 1);
    resume().await;
    let again = until_answer("the program dials again", async || {
        let said = gate.shell(&sandbox, "cat /tmp/again 2>&1 || true", "").await.printed();
        Some(said).filter(|said| !said.contains("No such file"))
    })
    .await;
    assert_eq!(again, "0 200 hello", "the end of its connection, and an answer on another");

    // Its programs end with its memory, and the machine that is booted from its disk has a network.
    hold().await;
    pause(true).await;
    resume().await;
    assert_eq!(gate.python(&sandbox, ASK_ONCE).await, ["200 hello"]);
    assert_eq!(site.connections(), 4);
    gate.close().await;
}
