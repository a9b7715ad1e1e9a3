//! What a copy of a layer keeps. Owners, devices and the kernel's attributes need root: `tests/e2e` has them.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn a_copy_has_the_content_the_modes_the_times_and_the_links() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let deep = from.join("a/b");
    fs::create_dir_all(&deep).expect("made");
    fs::create_dir(&to).expect("made");
    fs::write(deep.join("program"), "text").expect("written");
    fs::set_permissions(deep.join("program"), fs::Permissions::from_mode(0o4751)).expect("mode");
    symlink("nowhere", deep.join("link")).expect("linked");
    nix::unistd::mkfifo(&deep.join("pipe"), Mode::from_bits_truncate(0o640)).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(deep.join("socket")).expect("a socket");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    File::open(deep.join("program")).expect("opened").set_modified(old).expect("set");
    // Cannot be written to by its owner: it is closed when everything is in it.
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o555)).expect("mode");
    copy(&from, &to).expect("copied");
    let copied = to.join("a/b");
    let mode = |path: &Path| fs::symlink_metadata(path).expect("there").mode() & 0o7777;
    assert_eq!(fs::read_to_string(copied.join("program")).expect("read"), "text");
    assert_eq!(mode(&copied.join("program")), 0o4751);
    assert_eq!(mode(&copied), 0o555);
    assert_eq!(fs::metadata(copied.join("program")).expect("there").modified().expect("a time"), old);
    assert_eq!(fs::read_link(copied.join("link")).expect("a link"), Path::new("nowhere"));
    assert!(fs::symlink_metadata(copied.join("pipe")).expect("there").file_type().is_fifo());
    assert!(!copied.join("socket").exists(), "its program is gone");
    for dir in [&deep, &copied] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("mode");
    }
}

#[test]
fn a_tree_that_is_deeper_than_the_stack_is_copied() {
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let mut deep = from.clone();
    (0..900).for_each(|_| deep.push("d"));
    fs::create_dir_all(&deep).expect("made");
    fs::create_dir(&to).expect("made");
    let small = std::thread::Builder::new().stack_size(64 * 1024);
    let copied = to.clone();
    small.spawn(move || copy(&from, &copied)).expect("a thread").join().expect("no panic").expect("copied");
    let mut deep = to;
    (0..900).for_each(|_| deep.push("d"));
    assert!(deep.is_dir());
}
