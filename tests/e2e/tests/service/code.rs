//! Code that is run piece by piece, through the command line of one server and through its API.

use std::fs;
use std::path::Path;

use rekindle_api::v1::run_code_event::Event;
use rekindle_api::v1::{CodeLanguage, RunCodeRequest};
use rekindle_e2e::cli::{Ended, command, ended, rekindle_fed};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::until_answer;
use serde_json::json;

/// Commands for one server.
struct On<'a> {
    data: &'a Path,
    address: String,
}

impl On<'_> {
    async fn run(&self, words: &[&str]) -> Ended {
        ended(command(self.data, words).env("REKINDLE_SERVER", &self.address).env("NO_COLOR", "1")).await
    }

    /// Runs a command that succeeds, and returns what it printed.
    async fn text(&self, words: &[&str]) -> String {
        let ended = self.run(words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.stdout
    }
}

/// Shows an image without any library.
const IMAGE: &str = r#"
class Image:
    def _repr_png_(self):
        return b"\x89PNG some bytes"

print("an image", end="")
Image()
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_remembers_shows_fails_and_is_interrupted() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let on = On { data: data.path(), address: server.address() };
    let created = on.text(&["create", "--ttl", "20m", "--on-timeout", "pause-until-used"]).await;
    let id = created.trim_end();
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();

    assert_eq!(on.text(&["code", id, "-c", "x = 20"]).await, "");
    assert_eq!(on.text(&["code", id, "-c", "print('adding'); x + 22"]).await, "adding\n42\n");
    fs::write(path("image.py"), IMAGE).expect("written");
    let shown = on.run(&["code", id, &path("image.py"), "--save", &path("images")]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.starts_with("an image\n"), "a result has lines of its own: {shown:?}");
    assert_eq!(fs::read(path("images/result-1.png")).expect("saved"), b"\x89PNG some bytes");
    let failed = on.run(&["code", id, "-c", "print('before')\n1 / 0"]).await;
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), "before\n"), "{failed:?}");
    assert!(failed.stderr.contains("ZeroDivisionError: division by zero"), "{failed:?}");
    let told = on.run(&["code", "--json", id, "-c", "x"]).await.json();
    assert_eq!((&told["results"][0]["text"], &told["execution_count"]), (&json!("20"), &json!(5)), "{told}");

    // From standard input, in a context of its own.
    let made = on.text(&["context", "create", id, "--language", "bash", "--cwd", "/tmp"]).await;
    let context = made.trim_end();
    let fed = ["code", "--server", &on.address, id, "--context", context];
    let ran = rekindle_fed(data.path(), &fed, b"y=1; pwd").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "/tmp\n"), "{ran:?}");
    assert!(on.text(&["context", "ls", id]).await.contains(context));
    on.text(&["context", "restart", id, context]).await;
    let forgot = on.text(&["code", id, "--context", context, "-c", "echo \"<$y>\""]).await;
    assert_eq!(forgot, "<>\n");
    on.text(&["context", "rm", id, context]).await;
    on.run(&["code", id, "--context", context, "-c", "true"]).await.assert_own_failure("context");
    let node =
        on.text(&["code", id, "--language", "javascript", "-c", "[1, 2].map(n => n * 2).length"]).await;
    assert_eq!(node, "2\n");

    // Interrupted, and nothing is forgotten.
    let late = on.run(&["code", id, "--timeout", "2", "-c", "import time\ntime.sleep(600)"]).await;
    assert_eq!(late.code, Some(124), "{late:?}");
    // Used, a sandbox that waits for its use goes on where it was. The interrupt may still be under way, and is not cut off.
    until_answer("it is paused", async || (on.run(&["pause", id]).await.code == Some(0)).then_some(())).await;
    let mut client = server.client().await;
    let request = RunCodeRequest {
        sandbox: id.into(),
        code: "x".into(),
        language: CodeLanguage::Python.into(),
        ..RunCodeRequest::default()
    };
    let mut events = client.interpreter.run(request).await.expect("a run").into_inner();
    let (mut texts, mut over) = (Vec::new(), false);
    while let Some(event) = events.message().await.expect("an event") {
        match event.event {
            Some(Event::Result(result)) => texts.push(result.text.unwrap_or_default()),
            Some(Event::End(_)) => over = true,
            _ => {}
        }
    }
    assert_eq!((texts, over), (vec!["20".to_owned()], true));
    on.text(&["rm", id]).await;
    server.stop(&leftovers::machines(data.path())).await;
}
