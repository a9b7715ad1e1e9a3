//! Scratch disks made with the real formatter.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::{ScratchError, ScratchMaker};

#[test]
fn a_scratch_disk_is_a_sparse_ext4_of_the_asked_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let maker = ScratchMaker::new(&dir.path().join("blanks"));
    let disk = dir.path().join("scratch");
    match maker.make(512, &disk) {
        Err(ScratchError::NoFormatter) => rekindle_test_support::skip!("no mkfs.ext4"),
        other => other.expect("a disk is made"),
    }
    let facts = fs::metadata(&disk).expect("it is there");
    assert_eq!(facts.len(), 512 << 20);
    assert!(facts.blocks() * 512 < 4 << 20, "{} bytes are allocated", facts.blocks() * 512);
    let magic = &fs::read(&disk).expect("readable")[1080..1082];
    assert_eq!(magic, [0x53, 0xef], "the ext4 magic number is in its place");
    let start = Instant::now();
    maker.make(512, &dir.path().join("second")).expect("a second disk");
    eprintln!("copying a blank took {:?}", start.elapsed());
    let left = fs::read_dir(dir.path().join("blanks")).expect("readable").count();
    assert_eq!(left, 1, "one blank, nothing half-made");
}

#[test]
fn a_file_system_of_large_pages_does_not_make_copies_larger() {
    let dir = tempfile::tempdir().expect("a directory");
    // In a namespace of this thread's own: nothing is left mounted, whatever becomes of the test.
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        rekindle_test_support::skip!("mounting needs root");
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none).expect("a private tree");
    let large = Some("size=64m,huge=always");
    if mount(Some("large"), dir.path(), Some("tmpfs"), MsFlags::empty(), large).is_err() {
        rekindle_test_support::skip!("this kernel has no large pages in memory files");
    }
    let blank = match ScratchMaker::new(dir.path()).blank(512) {
        Err(ScratchError::NoFormatter) => rekindle_test_support::skip!("no mkfs.ext4"),
        other => fs::metadata(other.expect("a blank is made")).expect("it is there"),
    };
    assert!(blank.blocks() * 512 < 1 << 20, "{} bytes would be copied", blank.blocks() * 512);
}

#[test]
fn a_disk_is_never_made_over_an_existing_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let maker = ScratchMaker::new(dir.path());
    let disk = dir.path().join("scratch");
    fs::write(&disk, "precious").expect("written");
    assert!(maker.make(16, &disk).is_err());
    assert_eq!(fs::read_to_string(&disk).expect("readable"), "precious");
}
