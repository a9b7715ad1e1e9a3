//! Clients in another language, made only from what the server says about itself by reflection: one that uses
//! everything, and the examples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rekindle::config::Dirs;
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use sha2::{Digest as _, Sha256};

/// What the client needs from the package index.
const REQUIREMENTS: &str = include_str!("requirements.txt");
/// The client itself.
const CLIENT: &str = include_str!("client.py");

/// The packages, fetched once for each list and each Python and kept in the cache. An `Err` says what this machine
/// lacks.
fn packages() -> Result<PathBuf, String> {
    let version = said("python3", Command::new("python3").arg("-VV"))?;
    let key = Sha256::digest(format!("{version}{REQUIREMENTS}"));
    let key: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = Dirs::find().map_err(|error| error.to_string())?.cache.join("python");
    let dir = cache.join(key);
    if dir.exists() {
        return Ok(dir);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", cache.display());
    fs::create_dir_all(&cache).map_err(failed)?;
    // Made aside and renamed: half of them are never used.
    let aside = tempfile::Builder::new().prefix(".new-").tempdir_in(&cache).map_err(failed)?;
    let list = aside.path().join("requirements.txt");
    fs::write(&list, REQUIREMENTS).map_err(failed)?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--requirement"]).arg(list);
    said("pip", install.arg("--target").arg(aside.path()))?;
    match fs::rename(aside.path(), &dir) {
        // Another was quicker.
        Err(_) if dir.exists() => Ok(dir),
        renamed => renamed.map(|()| dir).map_err(failed),
    }
}

/// What a command printed, or what is wrong with it.
fn said(what: &str, command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{what}: {error}"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(format!("{what}: {}", stderr.trim().lines().last().unwrap_or("failed without a word")))
}

/// The packages, or the end of the test as a reported skip.
macro_rules! packages {
    () => {
        match tokio::task::spawn_blocking(packages).await.expect("ends") {
            Ok(packages) => packages,
            Err(reason) => rekindle_test_support::skip!("no Python with grpcio: {reason}"),
        }
    };
}

/// What a program printed. Nothing of the user's own is used, and nothing is written into the cache.
async fn printed(packages: &Path, cwd: &Path, words: &[&str]) -> String {
    let mut client = tokio::process::Command::new("python3");
    client.args(["-s", "-B"]).args(words).current_dir(cwd).env("PYTHONPATH", packages).kill_on_drop(true);
    let ended = client.output().await.expect("started");
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    eprintln!("{stdout}");
    assert!(ended.status.success(), "{words:?}: {}: {stdout}{stderr}", ended.status);
    stdout.into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_made_from_reflection_alone_uses_a_sandbox_from_beginning_to_end() {
    let lab = lab!();
    let packages = packages!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let stdout = printed(&packages, data.path(), &["-c", CLIENT, &server.address()]).await;
    assert!(stdout.ends_with("done\n"), "{stdout}");
    server.stop(&leftovers::machines(data.path())).await;
}

/// Every example, and what it prints besides figures of its own.
const EXAMPLES: [(&str, &[&str]); 5] = [
    ("one_execution.py", &["it printed 42", "it ended with exit_code 3", "it took "]),
    ("files.py", &["uploaded 11 bytes", "lines: 2", "done has ['list.txt']", "it reads ['milk', 'bread']"]),
    ("streaming.py", &["it says: who are you?", "it says: hello a program", "it ended with 0"]),
    ("chart.py", &["61 sold in 4 months", "chart.svg has 4 bars"]),
    (
        "retry.py",
        &[
            "the same sandbox: True",
            "lines in the log: 1 - it ran",
            "lines in the log: 1 - an earlier answer",
            "not repeated: NOT_FOUND",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_do_what_they_say() {
    let lab = lab!();
    let packages = packages!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let elsewhere = tempfile::tempdir().expect("a directory");
    for (name, says) in EXAMPLES {
        let program = folder.join(name).display().to_string();
        let stdout = printed(&packages, elsewhere.path(), &[&program, &server.address()]).await;
        let mut rest = stdout.as_str();
        for word in says {
            let at = rest.find(word).unwrap_or_else(|| panic!("{name} does not say {word:?}: {stdout}"));
            rest = &rest[at + word.len()..];
        }
    }
    server.stop(&leftovers::machines(data.path())).await;
}
