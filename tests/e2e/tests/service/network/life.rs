//! What a sandbox's life means for its network: it works after a pause, in every clone of a template, and ends with it.

use rekindle_api::v1::{PauseSandboxRequest, ResumeSandboxRequest};
use rekindle_e2e::site::Site;

use super::gate::Gate;
use crate::calls::destroy;

const ASK_ONCE: &str = "print(ask('plain.example.com'))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_works_after_a_pause_and_in_the_next_clone_of_the_template() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let site = Site::plain().await;
    site.put("/", "text/plain", "hello");
    let rules = "allow = [{ host = \"plain.example.com\", protocol = \"http\" }]";
    let gate = Gate::open(lab, "minimal", rules, &[("plain.example.com", site.address())]).await;
    let sandbox = gate.sandbox("test").await;
    assert_eq!(sandbox.network, "test");
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
