//! What the commands that talk to a server promise to scripts and people, one after the other on one sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rekindle_e2e::cli::{Ended, command, ended, program, rekindle, rekindle_fed, settle};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use serde_json::{Value, json};

/// One waits, so that `create` is quick.
const POOL: &str = "pool.templates={ minimal = { parked_low = 1, parked_high = 1, prespawned = 0 } }";

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

    /// The same as JSON.
    async fn json(&self, words: &[&str]) -> Value {
        let all: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let ended = self.run(&all).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.json()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_run_with_their_output_their_input_and_exit_codes_of_their_own() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[POOL]).await;
    let on = On { data: data.path(), address: server.address() };
    let created = on.text(&["create", "--env", "GREETING=hello world"]).await;
    let id = created.trim_end();
    assert!(!id.is_empty() && !id.contains(char::is_whitespace), "only the id is printed: {created:?}");

    let both = on.run(&["exec", id, "--sh", "echo $GREETING; echo err >&2; exit 7"]).await;
    assert_eq!((both.code, both.stdout.as_str(), both.stderr.as_str()), (Some(7), "hello world\n", "err\n"));
    // As much of an id as no other begins with will do.
    let words = on.run(&["exec", &id[..id.len() - 2], "--", "echo", "a b", "-l"]).await;
    assert_eq!((words.code, words.stdout.as_str()), (Some(0), "a b -l\n"), "{words:?}");
    let node = on.run(&["exec", id, "--node", "console.log(40 + 2); process.exitCode = 3"]).await;
    assert_eq!((node.code, node.stdout.as_str()), (Some(3), "42\n"), "{node:?}");
    let killed = on.run(&["exec", id, "--sh", "kill -9 $$"]).await;
    assert_eq!(killed.code, Some(128 + 9), "{killed:?}");
    // A program that is not there, and one that must not be executed.
    for (program, code, says) in [("no-such-program", 127, "no-such-program"), ("/etc/passwd", 126, "passwd")]
    {
        let refused = on.run(&["exec", id, "--", program]).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(code), ""), "{refused:?}");
        assert!(refused.stderr.contains(says) && !refused.stderr.contains("doctor"), "{refused:?}");
    }
    // More memory than its sandbox has is refused in the words of `create` and `run`.
    let words = "memory_bytes is 966367641600, and this server allows at most ";
    for command in [&["exec", "--memory", "900G", id][..], &["exec", "--detach", "--memory", "900G", id]] {
        on.run(&[command, &["--", "true"]].concat()).await.assert_own_failure(words);
    }
    let late = on.run(&["exec", "--timeout", "0.5", id, "--sh", "echo begun; sleep 60"]).await;
    assert_eq!((late.code, late.stdout.as_str()), (Some(124), "begun\n"), "{late:?}");
    let failed = on.run(&["exec", "--json", id, "--python", "import absent_module"]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.json()["outcome"], json!({ "kind": "exited", "code": 1 }));
    assert_eq!(failed.json()["diagnosis"]["subject"], "absent_module");
    let fed = [&["exec", "--server", &on.address, "-i", id][..], &["--sh", "sha256sum"]].concat();
    let input: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let hash: String =
        <sha2::Sha256 as sha2::Digest>::digest(&input).iter().map(|b| format!("{b:02x}")).collect();
    let sum = rekindle_fed(data.path(), &fed, &input).await;
    assert_eq!((sum.code, sum.stdout), (Some(0), format!("{hash}  -\n")), "{}", sum.stderr);
    let cut = on.run(&["exec", id, "--sh", "seq 100000"]).await;
    assert!(cut.stdout.chars().count() <= 4000 && cut.stdout.ends_with("100000\n"), "{}", cut.stdout);
    let whole = on.run(&["exec", "--stream", id, "--sh", "seq 100000"]).await;
    assert_eq!((whole.code, whole.stdout.len()), (Some(0), 588_895), "{}", whole.stderr);
    // One key, one run.
    for _ in 0..2 {
        on.text(&["exec", "--key", "once", id, "--sh", "echo x >> ran"]).await;
    }
    assert_eq!(on.text(&["exec", id, "--", "cat", "ran"]).await, "x\n");
    // What is not the program's end is this command's own failure, and says what to do.
    on.run(&["exec", "nobody", "--sh", "true"]).await.assert_own_failure("nobody");
    let nothing = On { data: data.path(), address: "unix:/nonexistent/rekindle.sock".into() };
    nothing.run(&["ps"]).await.assert_own_failure("no server runs at");
    server.stop(&leftovers::machines(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_put_listed_and_got_byte_by_byte() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[POOL]).await;
    let on = On { data: data.path(), address: server.address() };
    let created = on.text(&["create"]).await;
    let id = created.trim_end();
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(3_000_000).collect();
    fs::write(path("in.bin"), &bytes).expect("written");

    let put = on.json(&["put", id, &path("in.bin"), "deep/er/in.bin"]).await;
    assert_eq!(put["size"], 3_000_000, "{put}");
    on.text(&["get", id, "deep/er/in.bin", &path("out.bin")]).await;
    assert!(fs::read(path("out.bin")).expect("there") == bytes, "every byte comes back");
    on.text(&["get", id, "deep", &path("deep.tar")]).await;
    let tar = fs::read(path("deep.tar")).expect("there");
    assert!(tar.windows(6).any(|w| w == b"in.bin"), "a directory comes as an archive");
    let through = [&["put", "--server", &on.address, id][..], &["-", "piped"]].concat();
    assert_eq!(rekindle_fed(data.path(), &through, b"from a pipe").await.code, Some(0));
    assert_eq!(on.text(&["get", id, "piped", "-"]).await, "from a pipe");
    on.run(&["put", "--no-clobber", id, &path("in.bin"), "piped"]).await.assert_own_failure("piped");

    let listed = on.json(&["ls", id]).await;
    let names: BTreeSet<&str> =
        listed["entries"].as_array().expect("entries").iter().filter_map(|e| e["path"].as_str()).collect();
    assert_eq!(names, BTreeSet::from([".bash_logout", ".bashrc", ".profile", "deep", "piped"]), "{listed}");
    assert!(on.text(&["ls", id, "deep/er"]).await.contains("in.bin"));
    on.run(&["get", id, "nowhere", &path("none")]).await.assert_own_failure("nowhere");
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 3, "no half a file");
    server.stop(&leftovers::machines(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sandboxes_and_the_host_are_shown_to_people_and_to_programs() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[POOL]).await;
    let on = On { data: data.path(), address: server.address() };
    server.filled(1, 0).await;
    let made = on.json(&["create", "--meta", "job=7", "--ttl", "10m", "--idle", "5m"]).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    let id = id.as_str();
    assert_eq!((&made["state"], &made["start"]["kind"]), (&json!("running"), &json!("parked")), "{made}");
    assert_eq!(made["idle_timeout"], "300s");
    on.text(&["exec", id, "--sh", "true"]).await;
    let other = on.text(&["create"]).await;
    let other = other.trim_end();

    let listed = on.json(&["ps"]).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let mine = on.json(&["ps", "--meta", "job=7"]).await;
    assert_eq!((mine.as_array().map(Vec::len), &mine[0]["id"]), (Some(1), &json!(id)));
    assert_eq!(on.text(&["ps", "-q", "--meta", "job=7"]).await.trim_end(), id);
    assert!(on.text(&["ps"]).await.contains(id));
    let inspected = on.json(&["inspect", id]).await;
    assert_eq!((&inspected["id"], &inspected["usage"]["executions"]), (&json!(id), &json!(1)), "{inspected}");
    assert!(on.text(&["inspect", id]).await.contains("job=7"));

    assert_eq!(on.json(&["pause", id]).await["state"], "paused");
    on.run(&["exec", id, "--sh", "true"]).await.assert_own_failure("paused");
    assert_eq!(on.json(&["resume", id]).await["state"], "running");
    assert_eq!(on.text(&["exec", id, "--sh", "echo awake"]).await, "awake\n");
    let longer = on.json(&["timeout", id, "--idle", "7m"]).await;
    assert_eq!(longer["idle_timeout"], "420s", "{longer}");
    let timeline = on.json(&["timeline", id]).await;
    let calls: Vec<&str> =
        timeline["entries"].as_array().expect("entries").iter().filter_map(|e| e["call"].as_str()).collect();
    assert_eq!(calls.iter().filter(|call| **call == "execute").count(), 2, "{timeline}");
    for call in ["pause", "resume", "set_timeout"] {
        assert!(calls.contains(&call), "{call} is not in {timeline}");
    }
    assert!(on.text(&["timeline", id]).await.contains("exited:0"));

    let top = on.text(&["top", "--once"]).await;
    assert!(top.contains(id) && top.contains("minimal") && !top.contains('\x1b'), "{top}");
    let status = on.json(&["status"]).await;
    assert_eq!((&status["sandboxes"], &status["draining"]), (&json!(2), &json!(false)), "{status}");
    assert!(status["pools"][0]["claims_parked"].as_u64() >= Some(1), "{status}");
    assert!(on.text(&["status"]).await.contains("minimal"));
    let templates = on.json(&["template", "ls"]).await;
    assert_eq!((&templates[0]["name"], &templates[0]["is_default"]), (&json!("minimal"), &json!(true)));
    assert!(on.text(&["template", "ls"]).await.contains("minimal"));

    let machines = leftovers::machines(data.path());
    on.text(&["rm", id]).await;
    assert_eq!(on.json(&["ps"]).await[0]["id"], other, "it is gone from the list");
    let ended = on.json(&["ps", "--all", "--meta", "job=7"]).await;
    assert_eq!(ended[0]["end"]["reason"], "destroyed", "{ended}");
    let used = on.json(&["usage"]).await;
    assert_eq!((&used[0]["sandboxes"], &used[0]["executions"]), (&json!(1), &json!(2)), "{used}");
    assert_eq!(used[0]["running"], 1, "{used}");
    assert!(on.text(&["usage"]).await.contains(used[0]["tenant"].as_str().expect("a tenant")));
    on.text(&["rm", "--all"]).await;
    assert_eq!(on.json(&["ps"]).await, json!([]));
    on.run(&["rm", "nobody"]).await.assert_own_failure("nobody");
    server.stop(&machines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_read_as_one_by_what_its_guide_shows() {
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        rekindle_test_support::skip!("there is no openssl here, which the guide makes ids with");
    }
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("sales.csv"), "id,price\n1,2\n").expect("written");
    // The guide's own lines, in a shell, as a reader runs them.
    let guide = include_str!("../../../../docs/guides/traces.md");
    let (_, block) = guide.split_once("```console\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(lines.len(), 7, "{block}");
    let script = format!(
        "set -e\nrekindle() {{ \"$PROGRAM\" \"$@\"; }}\n{}\nrekindle timeline --trace $TRACEPARENT --json > trace.json\n\
         echo trace $TRACEPARENT\n",
        lines.join("\n")
    );
    let mut shell = tokio::process::Command::new("bash");
    settle(shell.arg("-c").arg(&script), data.path());
    shell.current_dir(dir.path()).env("PROGRAM", program()).env("REKINDLE_SERVER", server.address());
    shell.env("NO_COLOR", "1").env_remove("TRACEPARENT").env_remove("REKINDLE_STEP");
    let ran = ended(&mut shell).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let heading = block.lines().find(|line| line.starts_with("STEP ")).expect("a heading");
    let table: Vec<&str> = ran.stdout.lines().skip_while(|line| !line.starts_with("STEP ")).collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(table[0]), words(heading), "{}", ran.stdout);
    let first: Vec<String> = table[1..].iter().filter_map(|line| words(line).into_iter().next()).collect();
    let (end, rows) = first.split_last().expect("rows");
    assert_eq!(
        rows,
        ["gather", "create", "upload", "execute", "report", "execute", "destroy"],
        "{}",
        ran.stdout
    );
    assert_eq!(end, "trace");
    let sums = |step: &str| table.iter().find(|line| line.starts_with(step)).expect("its sums").to_string();
    assert!(sums("gather").contains("3 calls, 1 executions, 0 failed"), "{}", ran.stdout);
    assert!(sums("report").contains("2 calls, 1 executions, 0 failed"), "{}", ran.stdout);

    let told = fs::read(dir.path().join("trace.json")).expect("written");
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    let trace = ran.stdout.lines().last().expect("its name").split('-').nth(1).expect("an id");
    let entries = told["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 5, "{told}");
    for entry in entries {
        assert_eq!(entry["trace"], trace, "{told}");
    }
    let steps: Vec<&Value> = entries.iter().map(|entry| &entry["step"]).collect();
    assert_eq!(steps, ["gather", "gather", "gather", "report", "report"], "{told}");
    assert_eq!(entries[2]["subject"], "wc -l sales.csv");

    // The same by options, for who has only the name of a trace; and what is none is refused.
    let on = On { data: data.path(), address: server.address() };
    let name = "4bf92f3577b34da6a3ce929d0e0e4736";
    on.text(&["create", "--trace", name, "--step", "plan"]).await;
    let told = on.json(&["timeline", "--trace", name]).await;
    assert_eq!(
        (&told["entries"][0]["call"], &told["entries"][0]["step"]),
        (&json!("create"), &json!("plan"))
    );
    on.run(&["timeline", "--trace", "nonsense"]).await.assert_own_failure("is no trace");
    on.run(&["create", "--step", "two\nlines"]).await.assert_own_failure("names no step");
    let machines = leftovers::machines(data.path());
    on.text(&["rm", "--all"]).await;
    server.stop(&machines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_configuration_is_told_before_anything_is_started() {
    let lab = lab!();
    let data = lab.empty_data();
    let wrong = rekindle(data.path(), &["serve", "--set", "sandbox.ttl=5"]).await;
    wrong.assert_own_failure("sandbox.ttl");
    let open = rekindle(data.path(), &["serve", "--set", "listen.tcp=127.0.0.1:0"]).await;
    open.assert_own_failure("tls_cert");
    assert!(!data.path().join("run").exists(), "nothing was made");
}
