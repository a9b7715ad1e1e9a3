//! The five tools: what a model is told about them, and what they do.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::place::{Place, text};

/// A PNG, as far as its first bytes tell.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

fn described(tools: &Value, name: &str) -> (String, Value) {
    let tools = tools["result"]["tools"].as_array().expect("tools");
    let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    (tool["description"].as_str().expect("a text").to_owned(), tool["inputSchema"].clone())
}

#[tokio::test]
async fn the_descriptions_tell_what_is_in_force() {
    let place = Place::with(|config| config.output_limit = 3_500).await;
    let mut session = place.session(&["--network", "build"]).await;
    let tools = session.ask("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(5), "{tools}");
    let (run, schema) = described(&tools, "sandbox_run");
    for part in [
        "Every run is a new process",
        "Nothing but files persists",
        "at most 3,500 characters each",
        "The network policy is build: only these hosts can be reached, by name: ",
        "tls pypi.org:443",
        "Python 3.13.5 with its standard library and numpy==2.4.6; Node 24.19.0 with the npm packages typescript@5.9.3",
        "never made up",
    ] {
        assert!(run.contains(part), "{part:?} is not in {run}");
    }
    assert_eq!(schema["required"], json!(["sandbox", "code"]));
    assert_eq!(schema["additionalProperties"], false);
    let (create, schema) = described(&tools, "sandbox_create");
    assert!(
        create.contains("1 processor, 64 MiB of memory and 16 MiB of disk; its template is tiny"),
        "{create}"
    );
    assert!(create.contains("It also ends with this session."), "{create}");
    assert_eq!(schema["properties"]["template"]["enum"], json!(["bare", "tiny"]));
    assert_eq!(schema["properties"]["network"]["enum"], json!(["none", "build"]));
    // The same words, from the same source.
    let said = place.rekindle(&["prompt", "--network", "build"]).output().await.expect("run");
    let prompt = String::from_utf8(said.stdout).expect("text");
    for line in
        prompt.lines().filter(|line| line.starts_with("- Every run") || line.starts_with("- Installed"))
    {
        assert!(run.contains(&line[2..]), "{line}");
    }
}

#[tokio::test]
async fn a_run_says_how_it_ended_in_one_line_and_then_what_it_printed() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    let done = session.done("sandbox_run", json!({"sandbox": sandbox, "code": "echo one\nerr two"})).await;
    let (header, rest) = done.split_once('\n').expect("lines");
    assert!(header.starts_with("exit 0 | ") && header.ends_with(" s | truncated: no"), "{header}");
    assert_eq!(rest, "stdout:\none\nstderr:\ntwo");
    // A failure is a result too.
    let failed = session
        .done("sandbox_run", json!({"sandbox": sandbox, "code": "fail 3", "language": "python"}))
        .await;
    assert!(failed.starts_with("exit 3 | ") && failed.ends_with("\n(nothing was printed)"), "{failed}");
    let late = "echo row 7\nsleep 60000";
    let late = json!({"sandbox": sandbox, "code": late, "timeout_seconds": 0.2, "language": "node"});
    let late = session.done("sandbox_run", late).await;
    let header = late.lines().next().expect("a line");
    assert!(header.starts_with("timed out | ") && header.contains("hint: timed_out: do less"), "{late}");
    assert!(header.ends_with("stdout: row 7 (timeout_seconds allows more)"), "{late}");
    let oom = session.done("sandbox_run", json!({"sandbox": sandbox, "code": "oom"})).await;
    assert!(oom.starts_with("out of memory | ") && oom.contains("hint: out_of_memory: use less"), "{oom}");
    let options =
        json!({"sandbox": sandbox, "code": "cat; env WHO", "stdin": "input ", "env": {"WHO": "me"}});
    assert!(session.done("sandbox_run", options).await.contains("stdout:\ninput me"));
}

#[tokio::test]
async fn long_output_is_cut_and_said_to_be() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    let done = session.done("sandbox_run", json!({"sandbox": sandbox, "code": "flood 90000"})).await;
    let header = done.lines().next().expect("a line");
    assert!(header.contains("truncated: stdout (") && header.contains(" of 90000 characters; "), "{header}");
    assert!(done.chars().count() < 4_300, "{} characters", done.chars().count());
}

#[tokio::test]
async fn files_are_written_and_read_as_what_they_are() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    let long = "0123456789".repeat(1_000);
    let write = json!({"sandbox": sandbox, "path": "a/long.txt", "content": long});
    assert_eq!(session.done("sandbox_write", write).await, "wrote 10000 bytes to a/long.txt");
    let mut page = json!({"sandbox": sandbox, "path": "a/long.txt"});
    let first = session.done("sandbox_read", page.clone()).await;
    let (header, content) = first.split_once('\n').expect("lines");
    assert_eq!(header, "a/long.txt | text | bytes 0 to 4000 of 10000 | next page: offset 4000");
    assert_eq!(content, &long[..4_000]);
    (page["offset"], page["limit"]) = (json!(9_990), json!(50));
    let last = session.done("sandbox_read", page).await;
    assert_eq!(last, "a/long.txt | text | bytes 9990 to 10000 of 10000 | end of the file\n0123456789");
    for (name, bytes) in [("a/dot.png", PNG), ("a/raw", &[0_u8, 1, 2][..])] {
        let content = STANDARD.encode(bytes);
        let write = json!({"sandbox": sandbox, "path": name, "content": content, "encoding": "base64"});
        session.done("sandbox_write", write).await;
    }
    let image = session.call("sandbox_read", json!({"sandbox": sandbox, "path": "a/dot.png"})).await;
    assert_eq!(text(&image), "a/dot.png | image/png | 16 bytes");
    let picture = json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(PNG)});
    assert_eq!(image["content"][1], picture);
    let binary = session.done("sandbox_read", json!({"sandbox": sandbox, "path": "a/raw"})).await;
    assert!(binary.starts_with("a/raw | binary, not shown as text | bytes: 3 | "), "{binary}");
    assert!(binary.ends_with(": 00 01 02"), "{binary}");
    let script = json!({"text": "a/long.txt | text | 1 line", "structure": {}}).to_string();
    let write = json!({"sandbox": sandbox, "path": ".describe", "content": format!("echo {script}")});
    session.done("sandbox_write", write).await;
    let asked = json!({"sandbox": sandbox, "path": "a/long.txt", "describe": true});
    assert_eq!(session.done("sandbox_read", asked).await, "a/long.txt | text | 1 line");
    let listing = session.done("sandbox_read", json!({"sandbox": sandbox, "path": "a"})).await;
    assert_eq!(
        listing,
        "a | directory | 3 entries\ndot.png (16 bytes)\nlong.txt (10000 bytes)\nraw (3 bytes)"
    );
}

#[tokio::test]
async fn what_cannot_be_done_is_told_in_words_a_model_can_act_on() {
    let place = Place::new().await;
    let mut session = place.session(&[]).await;
    let sandbox = session.sandbox().await;
    for (tool, arguments, words) in [
        ("sandbox_run", json!({"sandbox": "made-up", "code": "true"}), "UNKNOWN_SANDBOX"),
        ("sandbox_run", json!({"sandbox": sandbox}), "missing field `code`"),
        (
            "sandbox_run",
            json!({"sandbox": sandbox, "code": "true", "language": "cobol"}),
            "unknown variant `cobol`",
        ),
        (
            "sandbox_run",
            json!({"sandbox": sandbox, "code": "true", "timeout_seconds": -1}),
            "INVALID_ARGUMENTS",
        ),
        (
            "sandbox_run",
            json!({"sandbox": sandbox, "code": "true", "timeout_seconds": 1e9}),
            "LIMIT_EXCEEDED",
        ),
        ("sandbox_run", json!({"code": "true", "shell": "x"}), "unknown field `shell`"),
        ("sandbox_read", json!({"sandbox": sandbox, "path": "missing"}), "NOT_FOUND"),
        ("sandbox_read", json!({"sandbox": sandbox, "path": ".", "limit": 10_000_000}), "INVALID_ARGUMENTS"),
        (
            "sandbox_write",
            json!({"sandbox": sandbox, "path": "x", "content": "%", "encoding": "base64"}),
            "no base64",
        ),
        ("sandbox_write", json!({"sandbox": "", "path": "x", "content": ""}), "UNKNOWN_SANDBOX"),
        ("sandbox_create", json!({"template": "missing"}), "UNKNOWN_TEMPLATE"),
        ("sandbox_create", json!({"ttl_seconds": 9_999_999}), "LIMIT_EXCEEDED"),
        ("sandbox_end", json!({}), "missing field `sandbox`"),
    ] {
        let told = session.refused(tool, arguments).await;
        assert!(
            told.starts_with("refused: ") && told.contains(words) && told.contains("\nhint: "),
            "{tool}: {told}"
        );
    }
    let ended = session.done("sandbox_end", json!({"sandbox": sandbox})).await;
    assert!(ended.contains("has ended"), "{ended}");
    let told = session.refused("sandbox_run", json!({"sandbox": sandbox, "code": "true"})).await;
    assert!(told.starts_with("refused: SANDBOX_ENDED: ") && told.contains("sandbox_create"), "{told}");
    // A tool that is not there is a mistake of the client's.
    let unknown = session.ask("tools/call", json!({"name": "sandbox_destroy", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn a_sandbox_of_another_template_says_what_it_is() {
    let place = Place::new().await;
    let mut session = place.session(&["--ttl", "2h", "--idle", "none"]).await;
    let made = session.done("sandbox_create", json!({"template": "bare", "network": "build"})).await;
    assert!(made.contains(" | template bare | network build | ends in 2 hours\n"), "{made}");
    assert!(made.contains("What is installed is not known beforehand"), "{made}");
    assert!(made.contains("tls pypi.org:443"), "{made}");
    let usual = session.done("sandbox_create", json!({"ttl_seconds": 90})).await;
    assert!(usual.contains(" | template tiny | network none | ends in 90 seconds\n"), "{usual}");
    assert!(usual.contains("There is no network") && !usual.contains("Installed"), "{usual}");
}
