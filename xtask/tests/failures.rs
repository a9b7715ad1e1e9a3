//! What goes wrong while building ends in a clear error with a hint, and leaves nothing.
//!
//! Runs the real `xtask` binary against throw-away caches and recipes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rekindle_test_support::skip;
use rekindle_test_support::wait::block_until;

/// A checkout of its own with the real recipes, and an empty cache.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for folder in ["rootfs", "kernel"] {
            let status =
                Command::new("cp").arg("-R").arg(root.join(folder)).arg(dir.path()).status().unwrap();
            assert!(status.success());
        }
        Self { dir }
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn xtask(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.env("REKINDLE_REPO", self.dir.path()).env("REKINDLE_CACHE", self.cache());
        command.env("REKINDLE_AGENT", "/bin/true");
        command
    }

    fn recipe(&self, name: &str, change: impl Fn(&str) -> String) {
        let rootfs = self.dir.path().join("rootfs");
        let text = fs::read_to_string(rootfs.join("minimal.toml")).unwrap();
        fs::write(rootfs.join(format!("{name}.toml")), change(&text)).unwrap();
    }

    /// No result and no work in progress.
    fn assert_nothing_half_made(&self) {
        for folder in ["tmp", "images", "base", "kernel"] {
            let left: Vec<_> = fs::read_dir(self.cache().join(folder)).into_iter().flatten().collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.dir.path().to_str().unwrap()), "{mounts}");
    }
}

/// Runs a command that must fail, and gives what it said.
fn complaint(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{text}");
    assert!(
        text.lines().last().is_some_and(|line| line.starts_with("hint: ")),
        "no hint at the end:\n{text}"
    );
    text
}

fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|out| out.status.success())
}

#[test]
fn an_unknown_key_in_a_recipe_is_named_before_anything_is_built() {
    let bench = Bench::new();
    bench.recipe("bad", |text| format!("pakages = [\"git\"]\n{text}"));
    let text = complaint(bench.xtask().args(["rootfs", "bad"]));
    assert!(text.contains("bad.toml is not a valid recipe") && text.contains("pakages"), "{text}");
    bench.assert_nothing_half_made();
}

#[test]
fn an_unknown_image_lists_the_known_ones() {
    let bench = Bench::new();
    let text = complaint(bench.xtask().args(["rootfs", "nope"]));
    assert!(text.contains("hint: the images are: developer, minimal, python-node"), "{text}");
}

#[test]
fn a_cache_that_cannot_be_written_says_what_to_set() {
    let bench = Bench::new();
    let text = complaint(bench.xtask().args(["rootfs", "minimal"]).env("REKINDLE_CACHE", "/proc/nowhere"));
    assert!(text.contains("/proc/nowhere") && text.contains("hint: set REKINDLE_CACHE"), "{text}");
}

#[test]
fn a_mirror_that_cannot_be_reached_is_told_from_a_bad_recipe() {
    if !has("mmdebstrap") {
        skip!("mmdebstrap is not installed");
    }
    let bench = Bench::new();
    let nobody = "http://127.0.0.1:9/debian";
    let text = complaint(
        bench
            .xtask()
            .args(["rootfs", "minimal"])
            .env("REKINDLE_MIRROR", nobody)
            .env("REKINDLE_SECURITY_MIRROR", nobody),
    );
    assert!(text.contains("the package mirror cannot be reached"), "{text}");
    assert!(text.contains("logs/base-minimal.log"), "{text}");
    bench.assert_nothing_half_made();
}

#[test]
fn a_package_that_does_not_exist_points_at_the_recipe() {
    if !has("mmdebstrap") {
        skip!("mmdebstrap is not installed");
    }
    let bench = Bench::new();
    bench.recipe("bad", |text| text.replace("\"nodejs\"", "\"no-such-package-anywhere\""));
    let text = complaint(bench.xtask().args(["rootfs", "bad"]));
    if text.contains("the package mirror cannot be reached") {
        skip!("no package mirror can be reached");
    }
    assert!(text.contains("no-such-package-anywhere"), "{text}");
    assert!(text.contains("hint: check the names under `packages`"), "{text}");
    bench.assert_nothing_half_made();
}

#[test]
fn a_full_disk_leaves_nothing_half_made() {
    let probe = Command::new("unshare").args(["--mount", "true"]).output();
    if !nix::unistd::geteuid().is_root() || !probe.is_ok_and(|output| output.status.success()) {
        skip!("mounting a small file system needs root and a mount namespace");
    }
    if !Path::new("/usr/src/linux-source-6.1.tar.xz").is_file() {
        skip!("linux-source-6.1 is not installed");
    }
    let bench = Bench::new();
    fs::create_dir(bench.cache()).unwrap();
    // In a mount namespace of its own: nothing stays mounted whatever happens.
    let script = "mount -t tmpfs -o size=8m tmpfs \"$REKINDLE_CACHE\" || exit 77
        \"$0\" kernel; code=$?
        echo \"left: $(ls \"$REKINDLE_CACHE/tmp\") $(ls \"$REKINDLE_CACHE/kernel\" 2>/dev/null)\"
        exit $code";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_xtask")])
        .env("REKINDLE_REPO", bench.dir.path())
        .env("REKINDLE_CACHE", bench.cache())
        .output()
        .unwrap();
    if output.status.code() == Some(77) {
        skip!("this machine does not let root mount a tmpfs");
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{err}");
    assert!(err.lines().last().unwrap().starts_with("hint: make room"), "{err}");
    assert_eq!(out.trim(), "left:", "{out}");
}

#[test]
fn a_killed_build_leaves_no_result_no_process_and_is_cleaned_up_by_the_next_command() {
    if !Path::new("/usr/src/linux-source-6.1.tar.xz").is_file() {
        skip!("linux-source-6.1 is not installed");
    }
    let bench = Bench::new();
    let mut child = bench.xtask().arg("kernel").spawn().unwrap();
    let unpacking = || {
        let work = fs::read_dir(bench.cache().join("tmp")).into_iter().flatten().flatten().next();
        work.is_some_and(|work| work.path().join("source/MAINTAINERS").exists())
    };
    block_until("the build started", unpacking);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.cache().join("kernel").exists(), "a half-made kernel is visible");

    // Its commands die with it; until they have, the lock keeps their folder.
    let emptied = || fs::read_dir(bench.cache().join("tmp")).unwrap().next().is_none();
    block_until("the work of the killed build is gone", || {
        assert!(bench.xtask().arg("clean").output().unwrap().status.success());
        emptied()
    });
    bench.assert_nothing_half_made();
}
