//! Which supervisors are taken for dead.

use std::process::Command;

use super::*;

fn instance(holder: Option<&Holder>) -> (tempfile::TempDir, File) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(LOCK);
    let lock = File::create(&path).expect("a lock");
    lock.try_lock().expect("nobody else has it");
    if let Some(holder) = holder {
        fs::write(path, serde_json::to_vec(holder).expect("json")).expect("written");
    }
    (dir, lock)
}

#[test]
fn a_supervisor_that_holds_its_lock_lives() {
    let this = Holder::this_process().expect("this process");
    let (dir, lock) = instance(Some(&this));
    assert!(!is_dead(dir.path()));
    lock.unlock().expect("let go");
    assert!(is_dead(dir.path()), "a lock that is free is enough");
}

#[test]
fn a_killed_supervisor_is_dead_even_while_a_child_it_was_starting_holds_the_lock() {
    let mut child = Command::new("sleep").arg("1000").spawn().expect("started");
    let process = ProcessIdentity::of(child.id()).expect("it runs");
    child.kill().expect("killed");
    child.wait().expect("gone");
    let holder = Holder { process, pid_namespace: pid_namespace().expect("readable") };
    let (dir, _held_by_somebody) = instance(Some(&holder));
    assert!(is_dead(dir.path()));

    let elsewhere = Holder { pid_namespace: "pid:[1]".into(), ..holder };
    let (dir, _held_by_somebody) = instance(Some(&elsewhere));
    assert!(!is_dead(dir.path()), "whoever lives in another namespace cannot be seen from here");
}

#[test]
fn a_lock_without_a_name_in_it_counts_as_it_is_held() {
    let (dir, _held) = instance(None);
    assert!(!is_dead(dir.path()));
}
