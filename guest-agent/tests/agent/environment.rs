//! The environment of an execution is built from nothing: what surrounds the agent never leaks.

use rekindle::agent::{ExecuteRequest, TerminalSize};

use crate::agent;
use crate::harness::{Setup, marker, shell, var};

#[tokio::test]
async fn it_holds_what_is_documented_and_nothing_else() {
    let agent = agent!(Setup {
        env: vec![("LD_PRELOAD", String::new()), ("EXTRA", "x".to_owned())],
        ..Setup::default()
    });
    let names = async |request: ExecuteRequest| {
        let text = agent.run(request).await.stdout.text;
        let mut names: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
        names.sort();
        names
    };
    let plain = ["HOME", "LANG", "PATH", "PYTHONUNBUFFERED", "TMPDIR", "USER"];
    let command = crate::harness::command(&["cat", "/proc/self/environ"]);
    let text = agent.run(command).await.stdout.text;
    let mut seen: Vec<&str> =
        text.split_terminator('\0').filter_map(|v| Some(v.split_once('=')?.0)).collect();
    seen.sort_unstable();
    assert_eq!(seen, plain);
    let env = || ExecuteRequest { env: vec![var("MINE", "1")], ..crate::harness::command(&["env"]) };
    assert_eq!(names(env()).await, ["HOME", "LANG", "MINE", "PATH", "PYTHONUNBUFFERED", "TMPDIR", "USER"]);
    let terminal = Some(TerminalSize { rows: 24, cols: 80 });
    let names = names(ExecuteRequest { terminal, ..env() }).await;
    assert!(names.contains(&"TERM".to_owned()), "a terminal has a kind: {names:?}");
}

#[tokio::test]
async fn a_secret_of_the_agents_is_nowhere_in_proc_as_the_user_sees_it() {
    let secret = format!("planted-secret-{}", marker());
    let agent = agent!(Setup { env: vec![("REKINDLE_SECRET", secret.clone())], ..Setup::default() });
    let environ = std::fs::read(format!("/proc/{}/environ", agent.pid())).expect("root can read it");
    let held = String::from_utf8_lossy(&environ).contains(&secret);
    assert!(held, "the secret is planted");
    // The needle is put together inside and kept in a file, so that the search does not find itself.
    let (half, other) = secret.split_at(secret.len() / 2);
    let search = format!(
        "printf '%s' '{half}' > needle; printf '%s' '{other}' >> needle; \
         for f in /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/maps; do \
         if grep -qaF -f needle $f 2>/dev/null; then echo leak $f; fi; done; echo searched"
    );
    let finished = agent.run(shell(&search)).await;
    assert_eq!(finished.stdout.text, "searched\n");
    let planted = ExecuteRequest {
        env: vec![var("PLANTED", &secret)],
        ..shell(&search.replace("/proc/[0-9]*/environ", "/proc/self/environ"))
    };
    let found = agent.run(planted).await.stdout.text;
    assert!(found.contains("leak /proc/self/environ"), "the search finds what is there: {found}");
    let own = agent.run(shell("cat /proc/self/environ /proc/$$/environ /proc/$PPID/environ")).await;
    assert!(!own.stdout.text.contains(&secret));
    let root = ExecuteRequest { user: "root".to_owned(), ..shell("env; cat /proc/self/environ") };
    assert!(!agent.run(root).await.stdout.text.contains(&secret), "not even root's own environment holds it");
}
