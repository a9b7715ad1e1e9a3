//! Copies of a real program, placed in a directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::JailBinaries;

const PATIENCE: Duration = Duration::from_secs(30);

/// Asks for a copy until one was there.
fn placed(binaries: &JailBinaries, dir: &Path, target: &Path) {
    let begun = Instant::now();
    while !binaries.place(dir, target) {
        assert!(begun.elapsed() < PATIENCE, "no copy was made");
        // Longer than the lull, which asking begins anew.
        thread::sleep(Duration::from_millis(1_500));
    }
}

/// Whether the file system has files without a name; where it has none there are no copies.
fn has_nameless_files(dir: &Path) -> bool {
    super::nameless_copy(Path::new("/bin/true"), dir).is_ok()
}

#[test]
fn a_copy_is_a_file_of_its_own_that_can_be_started_and_none_lies_about() {
    let dir = tempfile::tempdir().expect("a directory");
    if !has_nameless_files(dir.path()) {
        rekindle_test_support::skip!("this file system has no files without a name");
    }
    let program = fs::canonicalize("/bin/true").expect("a program");
    let binaries = JailBinaries::of(&program);
    let targets = [dir.path().join("one"), dir.path().join("two")];
    for target in &targets {
        placed(&binaries, dir.path(), target);
        assert_eq!(fs::read(target).expect("readable"), fs::read(&program).expect("readable"));
        // What the jailer insists on: it belongs to this jail alone.
        assert_eq!(fs::metadata(target).expect("there").nlink(), 1);
        assert!(Command::new(target).status().expect("it can be started").success());
    }
    let inode = |path: &Path| fs::metadata(path).expect("there").ino();
    assert_ne!(inode(&targets[0]), inode(&targets[1]));
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 2, "those that wait have no name");
}

#[test]
fn a_copy_of_a_program_that_was_replaced_is_not_used() {
    let dir = tempfile::tempdir().expect("a directory");
    if !has_nameless_files(dir.path()) {
        rekindle_test_support::skip!("this file system has no files without a name");
    }
    let (program, target) = (dir.path().join("program"), dir.path().join("target"));
    fs::write(&program, "the longer first version").expect("written");
    let binaries = JailBinaries::of(&program);
    placed(&binaries, dir.path(), &target);
    fs::remove_file(&target).expect("removed");
    // The next one waits by now.
    thread::sleep(Duration::from_millis(1_500));
    fs::write(&program, "the second").expect("written");
    assert!(!binaries.place(dir.path(), &target) || fs::read(&target).expect("readable") == b"the second");
}
