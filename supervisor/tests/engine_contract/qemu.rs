//! QEMU with the built kernel and the `minimal` image.

use std::fs;
use std::sync::Arc;

use rekindle::engine::qemu::{QemuEngine, find};
use rekindle::host::kvm::KvmStatus;

use super::bench::Bench;
use super::contract;
use super::guest::{artifacts, hello};

#[tokio::test]
async fn qemu_keeps_the_contract() {
    let found = match find(None) {
        Ok(found) => found,
        Err(error) => rekindle_test_support::skip!("{error}"),
    };
    let (kernel, image) = match artifacts() {
        Ok(found) => found,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let engine = QemuEngine::new(found, &KvmStatus::probe());
    rekindle_test_support::ran_on!("qemu");
    let bench = Bench::new(Arc::new(engine), kernel, image, 256, hello);
    contract::holds(&bench).await;
}

#[tokio::test]
async fn a_clone_runs_unprivileged_and_holds_its_snapshot_read_only() {
    let found = match find(None) {
        Ok(found) => found,
        Err(error) => rekindle_test_support::skip!("{error}"),
    };
    let (kernel, image) = match artifacts() {
        Ok(found) => found,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    if !nix::unistd::geteuid().is_root() {
        rekindle_test_support::skip!("looking at another user's process needs root");
    }
    let engine = QemuEngine::new(found, &KvmStatus::probe());
    rekindle_test_support::ran_on!("qemu");
    let bench = Bench::new(Arc::new(engine), kernel, image, 256, hello);
    let files = bench.snapshot("template").await;
    let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
    let pid = machine.process().expect("a process").pid;

    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("readable");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_ascii_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert!(field("Uid:").split(' ').all(|uid| uid.starts_with("610")), "{}", field("Uid:"));
    assert_eq!(field("Groups:"), "");
    assert_eq!((field("CapEff:"), field("CapBnd:").len()), ("0000000000000000".into(), 16));
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));

    // Every descriptor of a shared file is read-only, and the memory is mapped privately.
    let mut seen = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).expect("readable") {
        let entry = entry.expect("an entry");
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let number = entry.file_name().into_string().expect("a number");
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:\t")).unwrap_or("0");
        let mode = u32::from_str_radix(flags, 8).expect("octal") & 0o3;
        if target == files.memory
            || target == files.state
            || target == bench.image.canonicalize().expect("there")
        {
            assert_eq!(mode, 0, "{} is open for writing", target.display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "the memory file and the image are among its descriptors");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("readable");
    let memory = files.memory.display().to_string();
    let mut lines = maps.lines().filter(|line| line.ends_with(&memory)).peekable();
    assert!(lines.peek().is_some(), "the memory file is mapped");
    assert!(lines.all(|line| line.split(' ').nth(1).is_some_and(|mode| mode.ends_with('p'))));
    machine.kill().await;
}
