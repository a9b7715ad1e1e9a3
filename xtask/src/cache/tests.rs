//! The cache never shows a half-made result.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;

use super::*;

fn cache() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path().join("cache")).unwrap();
    (dir, cache)
}

fn make(work: &Path) -> Result<()> {
    fs::write(work.join("image"), "bytes")?;
    fs::write(work.join(MANIFEST), "{}")?;
    Ok(())
}

#[test]
fn a_second_build_of_the_same_key_does_nothing() {
    let (_dir, cache) = cache();
    assert!(cache.build("images/a", "k1", make).unwrap().fresh);
    let again = cache.build("images/a", "k1", |_| bail!("must not run")).unwrap();
    assert!(!again.fresh);
    assert_eq!(fs::read_link(cache.root().join("images/a/current")).unwrap(), Path::new("k1"));
}

#[test]
fn a_failed_build_leaves_nothing_behind() {
    let (_dir, cache) = cache();
    let outcome = cache.build("kernel", "k1", |work| {
        fs::write(work.join("vmlinux"), "half")?;
        bail!("compiler crashed")
    });
    assert!(outcome.is_err());
    assert!(cache.find("kernel", "k1").is_none());
    assert_eq!(fs::read_dir(cache.root().join("tmp")).unwrap().count(), 0);
    assert!(!cache.root().join("kernel/current").exists());
}

#[test]
fn the_remains_of_a_killed_build_are_removed_by_the_next_one() {
    let (_dir, cache) = cache();
    fs::create_dir(cache.root().join("tmp/kernel-old")).unwrap();
    fs::write(cache.root().join("tmp/kernel-old/vmlinux"), "half").unwrap();
    cache.build("kernel", "k1", make).unwrap();
    assert!(!cache.root().join("tmp/kernel-old").exists());
}

#[test]
fn the_work_of_a_running_build_is_left_alone() {
    let (_dir, cache) = cache();
    let _lock = cache.lock("kernel-busy").unwrap();
    fs::create_dir(cache.root().join("tmp/kernel-busy")).unwrap();
    cache.remove_stale().unwrap();
    assert!(cache.root().join("tmp/kernel-busy").exists());
}

#[test]
fn two_builds_at_once_make_the_result_once() {
    let (_dir, cache) = cache();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let built = cache.build("kernel", "k1", |work| {
                    made.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    make(work)
                });
                assert!(built.unwrap().dir.join("image").is_file());
            });
        }
    });
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn only_the_newest_results_are_kept() {
    let (_dir, cache) = cache();
    for key in ["k1", "k2", "k3", "k4"] {
        cache.build("kernel", key, make).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(cache.find("kernel", "k1").is_none());
    assert!(cache.find("kernel", "k2").is_some());
    assert!(cache.find("kernel", "k4").is_some());
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error_with_a_hint() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Cache::at(file.path().join("cache")).err().unwrap();
    assert!(crate::hint::render(&error).contains("hint: set REKINDLE_CACHE"));
}
