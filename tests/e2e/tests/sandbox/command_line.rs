//! What `rekindle run` and `rekindle template` promise to scripts and people.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rekindle::engine::EngineKind;
use rekindle_e2e::Lab;
use rekindle_e2e::cli::{Ended, command, ended, rekindle, rekindle_fed};
use tokio::io::AsyncReadExt as _;

/// `rekindle run --template minimal` with these words on the laboratory's snapshot.
async fn run(lab: &Lab, words: &[&str]) -> Ended {
    let all: Vec<&str> = ["run", "--template", "minimal"].into_iter().chain(words.iter().copied()).collect();
    rekindle(&lab.data, &all).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_outputs_and_the_exit_code_of_the_program_are_those_of_the_command() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let ended = run(lab, &["--sh", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (Some(7), "out\n", "err\n"));
    let words =
        run(lab, &["--env", "GREETING=hello world", "--", "sh", "-c", "echo \"$GREETING $1\"", "sh", "a b"])
            .await;
    assert_eq!((words.code, words.stdout.as_str()), (Some(0), "hello world a b\n"), "{words:?}");
    let node = run(lab, &["--node", "console.log(40 + 2); process.exitCode = 3"]).await;
    assert_eq!((node.code, node.stdout.as_str()), (Some(3), "42\n"), "{node:?}");
    let killed = run(lab, &["--sh", "kill -9 $$"]).await;
    assert_eq!(killed.code, Some(128 + 9), "{killed:?}");
    assert!(killed.stderr.contains("signal 9"), "{killed:?}");
    // Codes that mean something when they are ours pass through when they are the program's.
    assert_eq!(run(lab, &["--sh", "exit 125"]).await.code, Some(125));
    for (program, code) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        let missing = run(lab, &["--", program]).await;
        assert_eq!(missing.code, Some(code), "{missing:?}");
        assert!(missing.stderr.contains(program) && missing.stderr.contains("hint: program"), "{missing:?}");
    }
    // As a server refuses it.
    for (asked, says) in
        [(["--memory", "900G"], "memory_bytes is 966367641600"), (["--cpus", "64"], "milli_cpus is 64000")]
    {
        let greedy = run(lab, &[asked[0], asked[1], "--sh", "true"]).await;
        assert_eq!(greedy.code, Some(125), "{greedy:?}");
        assert!(greedy.stderr.contains(says), "{greedy:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_and_memory_that_run_out_have_exit_codes_of_their_own() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let late = run(lab, &["--timeout", "1.5", "--sh", "echo begun; sleep 60"]).await;
    assert_eq!((late.code, late.stdout.as_str()), (Some(124), "begun\n"), "{late:?}");
    assert!(late.stderr.contains("ran into its time limit"), "{late:?}");
    // More than the limit, and less than the machine has.
    let eat = format!("x = bytearray(b'x') * ({} << 20)", lab.source.recipe.memory_mib * 2 / 5);
    let eaten = run(lab, &["--memory", "64M", "--python", &eat]).await;
    assert_eq!(eaten.code, Some(137), "{eaten:?}");
    assert!(eaten.stderr.contains("out of memory"), "{eaten:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_reaches_the_program_whole() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let input: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let count =
        "import sys, hashlib; d = sys.stdin.buffer.read(); print(len(d), hashlib.sha256(d).hexdigest())";
    let ended = rekindle_fed(&lab.data, &["run", "--template", "minimal", "--python", count], &input).await;
    let hash: String =
        <sha2::Sha256 as sha2::Digest>::digest(&input).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        (ended.code, ended.stdout),
        (Some(0), format!("{} {hash}\n", input.len())),
        "{}",
        ended.stderr
    );
    // A program that does not read does not hold the command up.
    let ignored = rekindle_fed(&lab.data, &["run", "--template", "minimal", "--sh", "echo done"], b"x").await;
    assert_eq!((ignored.code, ignored.stdout.as_str()), (Some(0), "done\n"), "{ignored:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_in_and_out_byte_by_byte_with_their_mode() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(70_000).collect();
    fs::write(path("in.bin"), &bytes).expect("written");
    fs::set_permissions(path("in.bin"), Permissions::from_mode(0o750)).expect("set");
    let words = [
        "--put",
        &format!("{}:deep/er/in.bin", path("in.bin")),
        "--get",
        &format!("deep/er/in.bin:{}", path("out.bin")),
        "--get",
        &format!("/home/user/deep:{}", path("deep.tar")),
        "--sh",
        "stat -c '%a %U %s' deep/er/in.bin",
    ];
    let ended = run(lab, &words).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "750 user 70000\n"), "{ended:?}");
    assert!(fs::read(path("out.bin")).expect("there") == bytes, "every byte comes back");
    let tar = fs::read(path("deep.tar")).expect("there");
    assert!(tar.len() > 70_000 && tar.windows(6).any(|w| w == b"in.bin"), "a directory comes as an archive");
    // What cannot be brought is an error, and does not leave half a file.
    let missing = run(lab, &["--get", &format!("nowhere:{}", path("none")), "--sh", "true"]).await;
    assert_eq!(missing.code, Some(125), "{missing:?}");
    assert!(missing.stderr.contains("nowhere could not be copied"), "{missing:?}");
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_runs_with_the_interpreter_its_extension_names() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text, said) in [
        ("job.py", "import sys; print('python', sys.argv[0])", "python job.py\n"),
        ("job.js", "console.log('node')", "node\n"),
        ("job.sh", "echo bash ${BASH_VERSION:+yes}", "bash yes\n"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        let ended = run(lab, &[&path.display().to_string()]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), said), "{name}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_tells_everything_and_its_stages_add_up() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let ended = run(lab, &["--json", "--python", "import absent_module"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    let json = ended.json();
    assert_eq!(json["outcome"], serde_json::json!({ "kind": "exited", "code": 1 }));
    let diagnosis = &json["diagnosis"];
    assert_eq!(
        (diagnosis["kind"].as_str(), diagnosis["subject"].as_str()),
        (Some("missing_module"), Some("absent_module"))
    );
    assert!(diagnosis["hint"].as_str().is_some_and(|hint| hint.contains("not installed")), "{diagnosis}");
    assert_eq!(
        (json["stdout"]["text"].as_str(), json["stdout"]["truncated"].as_bool()),
        (Some(""), Some(false))
    );
    assert!(
        json["stderr"]["text"].as_str().is_some_and(|text| text.contains("ModuleNotFoundError")),
        "{json}"
    );
    let engine = rekindle_e2e::engine().to_string();
    assert_eq!(
        (json["template"].as_str(), json["engine"].as_str()),
        (Some("minimal"), Some(engine.as_str()))
    );
    for field in ["wall_time", "cpu_time"] {
        let time = json["usage"][field].as_str().and_then(|time| time.strip_suffix('s')?.parse::<f64>().ok());
        assert!(time.is_some_and(|seconds| seconds > 0.0), "{field}: {json}");
    }
    assert!(json["usage"]["memory_peak_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{json}");
    let stages = json["timings"]["stages"].as_array().expect("stages");
    for name in ["setup", "spawn", "hello", "gate", "execute", "destroy"] {
        assert!(stages.iter().any(|stage| stage["name"] == name), "{name} is not in {stages:?}");
    }
    let micros = |time: &serde_json::Value| {
        let seconds: f64 =
            time.as_str().and_then(|time| time.strip_suffix('s')?.parse().ok()).expect("a duration");
        (seconds * 1e6).round()
    };
    let sum: f64 = stages.iter().map(|stage| micros(&stage["duration"])).sum();
    assert_eq!(sum, micros(&json["timings"]["total"]), "{stages:?}");

    let late = run(lab, &["--json", "--timeout", "0.5", "--sh", "sleep 60"]).await;
    assert_eq!((late.code, &late.json()["outcome"]["kind"]), (Some(124), &"timed_out".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_without_the_jailer_is_said_loudly_and_refused_where_the_jailer_is_demanded() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let words = ["run", "--template", "minimal", "--no-jail", "--sh", "echo ran"];
    let refused = ended(command(&lab.data, &words).env("REKINDLE_REQUIRE_JAIL", "1")).await;
    refused.assert_own_failure("running without the jailer is refused");
    // Nothing may turn the warning off.
    let quiet = ended(command(&lab.data, &words).env("REKINDLE_LOG", "off")).await;
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), "ran\n"), "{quiet:?}");
    let jailed = rekindle_e2e::engine() == EngineKind::Firecracker;
    assert_eq!(quiet.stderr.contains("warning: NO JAIL"), jailed, "{quiet:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_output_is_shortened_with_a_note_and_streamed_whole_when_asked() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let cut = run(lab, &["--sh", "seq 100000"]).await;
    assert_eq!((cut.code, cut.stdout.chars().count() <= 4000), (Some(0), true));
    assert!(cut.stdout.starts_with("1\n2\n") && cut.stdout.ends_with("99999\n100000\n"), "{}", cut.stdout);
    assert!(cut.stderr.contains("of 588895 characters"), "{}", cut.stderr);
    let shorter = run(lab, &["--output-limit", "200", "--sh", "seq 100000"]).await;
    assert!(shorter.stdout.chars().count() <= 200, "{}", shorter.stdout);
    let whole = run(lab, &["--stream", "--sh", "seq 100000"]).await;
    assert_eq!((whole.code, whole.stdout.len(), whole.stderr.as_str()), (Some(0), 588_895, ""));
    // Nobody reads any more: it ends as a local program would.
    let words = ["run", "--template", "minimal", "--stream", "--sh", "yes"];
    let mut unread = command(&lab.data, &words).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = [0; 2];
    unread.stdout.take().expect("a pipe").read_exact(&mut line).await.expect("it prints");
    assert_eq!(unread.wait().await.expect("it ends").code(), Some(128 + 13));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_snapshot_is_built_on_first_use_and_templates_can_be_listed_verified_and_removed() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.empty_data();
    let data = data.path();
    let before = rekindle(data, &["template", "ls"]).await;
    assert!(before.stdout.contains("not built yet"), "{before:?}");
    let words = ["run", "--template", "minimal", "--sh", "echo ran"];
    let first = ended(command(data, &words).env("NO_COLOR", "1")).await;
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "ran\n"), "{first:?}");
    assert!(first.stderr.contains("template minimal: built in"), "progress is shown: {first:?}");
    let second = rekindle(data, &words).await;
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second:?}");

    let listed = rekindle(data, &["template", "ls", "--json"]).await.json();
    assert_eq!(listed["snapshots"][0]["template"], "minimal", "{listed}");
    assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(1));
    let again = rekindle(data, &["template", "build", "minimal"]).await;
    assert!(again.stderr.contains("there already") && again.code == Some(0), "{again:?}");
    let verified = rekindle(data, &["template", "verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let removed = rekindle(data, &["template", "rm", "minimal"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let none = rekindle(data, &["template", "verify"]).await;
    none.assert_own_failure("no snapshot to verify");
    assert_eq!(rekindle(data, &["template", "rm", "minimal"]).await.code, Some(125));
}
