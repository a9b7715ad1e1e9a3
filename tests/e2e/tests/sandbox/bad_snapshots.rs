//! Snapshots, disks and words that are wrong: exit code 125, a sentence, a hint, and nothing left behind.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rekindle::engine::EngineKind;
use rekindle_e2e::cli::{Ended, command, ended, program, rekindle, settle};
use rekindle_e2e::leftovers;
use tokio::process::Command;

const RUN: &[&str] = &["run", "--template", "minimal", "--sh", "echo ran"];

/// The snapshot in a data directory that holds one.
fn snapshot_dir(data: &Path) -> PathBuf {
    let mut entries = fs::read_dir(data.join("snapshots/minimal")).expect("readable");
    entries.next().expect("a snapshot").expect("an entry").path()
}

/// Opens a file of the snapshot for damage.
fn writable(path: &Path) -> File {
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("ours");
    OpenOptions::new().read(true).write(true).open(path).expect("opened")
}

/// Whether a disk can be mounted for one test alone. Not in a plain chroot, where it would show outside.
fn can_mount_aside() -> bool {
    let probe = std::process::Command::new("unshare").args(["-m", "true"]).output();
    nix::unistd::geteuid().is_root() && probe.is_ok_and(|output| output.status.success())
}

async fn run(data: &Path) -> Ended {
    let ended = rekindle(data, RUN).await;
    leftovers::find(data, &leftovers::machines(data), &BTreeSet::new()).assert_none();
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_or_changed_snapshot_is_refused_by_run_and_named_by_verify() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    let verified = rekindle(data, &["template", "verify", "minimal"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");

    // One bit of the guest's memory, then of the state of its devices; each is put right again.
    for name in ["memory", "state"] {
        let file = writable(&snapshot_dir(data).join(name));
        let at = file.metadata().expect("there").len() / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
        run(data).await.assert_own_failure(&format!("is damaged: {name} has the hash"));
        let verified = rekindle(data, &["template", "verify"]).await;
        assert_eq!(verified.code, Some(125), "{verified:?}");
        assert!(verified.stdout.contains(&format!("damaged: {name} has the hash")), "{verified:?}");
        file.write_all_at(&byte, at).expect("written");
    }

    let memory = writable(&snapshot_dir(data).join("memory"));
    let size = memory.metadata().expect("there").len();
    memory.set_len(size - 4096).expect("cut");
    run(data).await.assert_own_failure("is damaged: memory has");
    memory.set_len(size).expect("grown");
    // The last page may have been all zeros; then the snapshot is whole again, as its hashes say.
    let state = writable(&snapshot_dir(data).join("state"));
    state.set_len(100).expect("cut");
    run(data).await.assert_own_failure("is damaged: state has");
    fs::remove_file(snapshot_dir(data).join("state")).expect("removed");
    let ended = run(data).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");

    // What the hint says helps.
    let removed = rekindle(data, &["template", "rm", "minimal"]).await;
    assert_eq!((removed.code, snapshots(data)), (Some(0), 0), "{removed:?}");
}

fn snapshots(data: &Path) -> usize {
    fs::read_dir(data.join("snapshots/minimal")).map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_whose_description_was_edited_is_never_restored() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    let dir = snapshot_dir(data);
    let manifest = fs::read_to_string(dir.join("manifest.json")).expect("readable");
    let (own, other) = match rekindle_e2e::engine() {
        EngineKind::Qemu => ("\"qemu\"", "\"firecracker\""),
        _ => ("\"firecracker\"", "\"qemu\""),
    };
    let foreign = manifest.replace(own, other);
    assert_ne!(manifest, foreign);
    fs::write(dir.join("manifest.json"), foreign).expect("written");
    let listed = rekindle(data, &["template", "ls"]).await;
    assert!(listed.stdout.contains("damaged: "), "{listed:?}");
    let verified = rekindle(data, &["template", "verify", "minimal"]).await;
    assert_eq!(verified.code, Some(125), "{verified:?}");
    assert!(verified.stdout.contains("does not belong to its directory"), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_made_by_another_version_is_refused_naming_both_and_stays_for_the_one_that_made_it() {
    let lab = lab!();
    if rekindle_e2e::engine() != EngineKind::Qemu {
        rekindle_test_support::skip!("the version of this engine's monitor cannot be pretended");
    }
    let _turn = lab.turn().await;
    let data = lab.copy();
    let data = data.path();
    // As after an upgrade.
    let newer = data.join("qemu-system-x86_64");
    fs::write(&newer, "#!/bin/sh\necho 'QEMU emulator version 99.1.0 (Elsewhere)'\n").expect("written");
    fs::set_permissions(&newer, Permissions::from_mode(0o755)).expect("ours");
    let refused = ended(command(data, RUN).env("REKINDLE_QEMU", &newer)).await;
    refused.assert_own_failure("no snapshot of template minimal fits: the monitor's version is ");
    assert!(refused.stderr.contains(" in the snapshot and 99.1.0 (Elsewhere) here"), "{refused:?}");
    assert!(refused.stderr.contains("hint: run `rekindle template build minimal`"), "{refused:?}");
    leftovers::find(data, &leftovers::machines(data), &BTreeSet::new()).assert_none();
    assert_eq!(snapshots(data), 1);
    let ran = run(data).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_image_or_kernel_is_named_with_the_command_that_builds_it() {
    let lab = lab!();
    let data = lab.empty_data();
    let data = data.path();
    let cache = tempfile::tempdir().expect("a directory");
    let nothing = ended(command(data, RUN).env("REKINDLE_CACHE", cache.path())).await;
    nothing.assert_own_failure("is missing");
    assert!(nothing.stderr.contains("hint: run `cargo xtask kernel`"), "{nothing:?}");
    let kernel = lab.source.kernel.path.parent().expect("a directory");
    fs::create_dir(cache.path().join("kernel")).expect("made");
    std::os::unix::fs::symlink(kernel, cache.path().join("kernel/current")).expect("linked");
    let no_image = ended(command(data, RUN).env("REKINDLE_CACHE", cache.path())).await;
    no_image.assert_own_failure("the image minimal is missing");
    assert!(no_image.stderr.contains("hint: run `cargo xtask rootfs minimal`"), "{no_image:?}");
    leftovers::find(data, &BTreeSet::new(), &BTreeSet::new()).assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_clear_error_and_no_half_snapshot() {
    let lab = lab!();
    if !can_mount_aside() {
        rekindle_test_support::skip!("mounting a small disk needs root and a mount namespace");
    }
    let _turn = lab.turn().await;
    let data = lab.empty_data();
    // A mount namespace of its own: the small disk is gone with the shell, however that ends.
    let script = r#"mount -t tmpfs -o size=24m tmpfs "$1" || exit 77
        "$2" run --template minimal --sh 'echo ran'; code=$?
        find "$1/staging" "$1/run" "$1/snapshots" -mindepth 1 -printf 'left: %P\n'
        exit $code"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(data.path()).arg(program());
    settle(&mut command, data.path());
    let full = ended(&mut command).await;
    if full.code == Some(77) {
        rekindle_test_support::skip!("a small disk cannot be mounted here");
    }
    assert_eq!((full.code, full.stdout.as_str()), (Some(125), ""), "{full:?}");
    assert!(full.stderr.contains("hint: free some space"), "{full:?}");
    leftovers::find(data.path(), &BTreeSet::new(), &BTreeSet::new()).assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_runs_out_of_disk_gives_the_guest_an_error_and_does_not_stop_it() {
    let lab = lab!();
    if !can_mount_aside() {
        rekindle_test_support::skip!("mounting a small disk needs root and a mount namespace");
    }
    let _turn = lab.turn().await;
    let (data, copy) = (lab.empty_data(), lab.copy());
    // A file system of its own, large enough for the snapshot and too small for what the program writes.
    let script = r#"truncate -s 256M "$1.img" && mkfs.ext4 -q -F "$1.img" && mount -o loop "$1.img" "$1" || exit 77
        cp -a --sparse=always "$3/snapshots" "$1" || exit 78
        "$2" run --template minimal --timeout 100 --sh \
            'dd if=/dev/zero of=big bs=1M count=300 conv=fsync 2>/dev/null || echo refused; echo alive'
        code=$?; rm -f "$1.img"; exit $code"#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(data.path()).arg(program()).arg(copy.path());
    settle(&mut command, data.path());
    let full = ended(&mut command).await;
    if full.code == Some(77) {
        rekindle_test_support::skip!("a small disk cannot be mounted here");
    }
    assert_eq!((full.code, full.stdout.as_str()), (Some(0), "refused\nalive\n"), "{full:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_words_are_refused_before_anything_is_started() {
    let lab = lab!();
    let data = lab.empty_data();
    let data = data.path();
    for words in [
        &["run"][..],
        &["run", "--sh", "x", "--python", "y"],
        &["run", "--bogus", "--sh", "x"],
        &["run", "--memory", "12X", "--sh", "x"],
        &["run", "--cpus", "0", "--sh", "x"],
        &["run", "--timeout", "0", "--sh", "x"],
        &["run", "--template", "../etc", "--sh", "x"],
        &["run", "--engine", "bochs", "--sh", "x"],
        &["run", "--put", "no-colon", "--sh", "x"],
        &["run", "--get", ":x", "--sh", "x"],
        &["run", "--env", "no-value", "--sh", "x"],
        &["template", "build"],
        &["nonsense"],
    ] {
        let refused = rekindle(data, words).await;
        assert_eq!(refused.code, Some(125), "{words:?}: {refused:?}");
        assert!(refused.stderr.starts_with("error: "), "{words:?}: {refused:?}");
        assert_eq!(refused.stdout, "", "{words:?}");
    }
    assert_eq!(fs::read_dir(data).expect("readable").count(), 0, "nothing was made");
    rekindle(data, &["run", "--template", "unheard-of", "--sh", "x"]).await.assert_own_failure("unheard-of");
    rekindle(data, &["run", "--template", "minimal", "job.txt"]).await.assert_own_failure("job.txt");
    let gone =
        rekindle(data, &["run", "--template", "minimal", "--put", "/nonexistent:x", "--sh", "x"]).await;
    assert_eq!(gone.code, Some(125), "{gone:?}");
    assert!(gone.stderr.contains("cannot read /nonexistent"), "{gone:?}");
    assert!(gone.stderr.contains("hint: check the path"), "{gone:?}");
    let unwritable = rekindle(Path::new("/proc/rekindle"), RUN).await;
    unwritable.assert_own_failure("/proc/rekindle");
    assert!(unwritable.stderr.contains("hint: "), "{unwritable:?}");
    leftovers::find(data, &BTreeSet::new(), &BTreeSet::new()).assert_none();
}
