//! Programs that outlive the command that starts them, through the command line of one server.

use std::path::Path;

use rekindle_e2e::cli::{Ended, command, ended, rekindle_fed, started};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

/// Commands for one server.
struct On<'a> {
    data: &'a Path,
    address: String,
}

impl On<'_> {
    fn command(&self, words: &[&str]) -> tokio::process::Command {
        let mut command = command(self.data, words);
        command.env("REKINDLE_SERVER", &self.address).env("NO_COLOR", "1");
        command
    }

    async fn run(&self, words: &[&str]) -> Ended {
        ended(&mut self.command(words)).await
    }

    /// Runs a command that succeeds, and returns what it printed.
    async fn text(&self, words: &[&str]) -> String {
        let ended = self.run(words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    async fn jobs(&self, id: &str) -> Vec<Value> {
        let listed = self.run(&["jobs", "--json", id]).await;
        listed.json().as_array().cloned().unwrap_or_else(|| panic!("{listed:?}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_program_is_attached_to_left_paused_fed_and_killed() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let on = On { data: data.path(), address: server.address() };
    let id = on.text(&["create", "--ttl", "1h"]).await;

    let line = "echo begun; read line; echo got $line; echo oops >&2; exit 6";
    let job = on.text(&["exec", "--detach", "-i", &id, "--sh", line]).await;
    assert_eq!(job, "ex-1");
    // Somebody looks on, and is gone without a word.
    let mut attached = started(&mut on.command(&["attach", &id, &job]));
    let mut seen = [0; 6];
    attached.stdout.as_mut().expect("a pipe").read_exact(&mut seen).await.expect("it prints");
    assert_eq!(&seen, b"begun\n");
    attached.kill().await.expect("killed");
    let listed = on.jobs(&id).await;
    assert_eq!((&listed[0]["state"], &listed[0]["takes_input"]), (&json!("running"), &json!(true)));

    on.text(&["pause", &id]).await;
    on.run(&["kill", &id, &job]).await.assert_own_failure("paused");
    assert_eq!(on.jobs(&id).await[0]["state"], "running", "it is frozen, not gone");
    on.text(&["resume", &id]).await;

    let words = ["attach", "--server", &on.address, "-i", &id, &job];
    let fed = rekindle_fed(data.path(), &words, b"hello\n").await;
    assert_eq!((fed.code, &fed.stdout[..]), (Some(6), "begun\ngot hello\n"), "{fed:?}");
    assert_eq!(fed.stderr, "oops\n");
    for _ in 0..2 {
        let ended = on.run(&["attach", "--json", &id, &job]).await;
        assert_eq!(ended.code, Some(6), "{ended:?}");
        assert_eq!(ended.json()["outcome"], json!({ "kind": "exited", "code": 6 }));
        assert_eq!(ended.json()["stdout"]["text"], "begun\ngot hello\n");
    }

    // What is missed is counted, the end is shown, and all of it is in the sandbox.
    let job = on.text(&["exec", "-d", &id, "--sh", "seq 200000"]).await;
    assert_eq!(on.run(&["attach", "--json", &id, &job]).await.code, Some(0));
    let late = on.run(&["attach", &id, &job]).await;
    assert!(late.stdout.ends_with("199999\n200000\n") && late.stdout.len() < 300_000, "{}", late.stderr);
    let path = late.stderr.split("all of it from ").nth(1).expect("it says where").trim_end();
    assert_eq!(on.text(&["get", &id, path, "-"]).await.len(), 1_288_894, "without its last line end");

    let job = on.text(&["exec", "-d", &id, "--sh", "sleep 1000 & sleep 1000"]).await;
    on.text(&["kill", "--everyone", "-s", "KILL", &id, &job]).await;
    assert_eq!(on.run(&["attach", &id, &job]).await.code, Some(128 + 9));
    let late = on.text(&["exec", "-d", "--timeout", "0.5", &id, "--", "sleep", "1000"]).await;
    assert_eq!(on.run(&["attach", &id, &late]).await.code, Some(124));
    on.run(&["attach", &id, "ex-99"]).await.assert_own_failure("no such execution");
    let timeline = on.text(&["timeline", &id]).await;
    assert_eq!(timeline.matches("execute_detached").count(), 4, "{timeline}");

    // Who waits when the sandbox ends is told how.
    let job = on.text(&["exec", "-d", &id, "--", "sleep", "1000"]).await;
    let waiting = started(&mut on.command(&["attach", &id, &job]));
    assert_eq!(on.jobs(&id).await[4]["state"], "running");
    on.text(&["rm", &id]).await;
    let ended = waiting.wait_with_output().await.expect("ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(125) && said.contains("the sandbox has ended"), "{said}");
    server.stop(&leftovers::machines(data.path())).await;
}
