//! Programs of the guest ask whether there is a code interpreter.

use crate::agent;
use crate::harness::Setup;

/// A program that asks for a path, or says what hinders it.
const ASK: &str = r#"python3 - <<'END'
import urllib.error, urllib.request
for path in "health", "contexts":
    try:
        with urllib.request.urlopen(f"http://0.0.0.0:49999/{path}", timeout=20) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)
END"#;

#[tokio::test]
async fn the_interpreter_s_health_is_told_also_behind_a_program_that_asks_nothing() {
    let setup = Setup {
        unshare: vec!["--net"],
        before: "ip link set lo up",
        words: vec!["health=49999"],
        ..Setup::default()
    };
    let agent = agent!(setup);
    if !agent.has("python3").await {
        rekindle_test_support::skip!("this machine has no python3");
    }
    assert_eq!(agent.shell(ASK).await, "200 \"OK\"\n404\n");
    let silent = "python3 -c 'import socket, sys, time; s = socket.create_connection((\"127.0.0.1\", 49999)); \
        print(1, flush=True); time.sleep(600)' > silent & silent=$!; until [ -s silent ]; do sleep 0.1; done";
    assert_eq!(agent.shell(&format!("{silent}\n{ASK}\nkill $silent")).await, "200 \"OK\"\n404\n");
}
