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

const GOLDEN: &str = include_str!("../../../tests/golden/0.1.0/lock");

#[test]
fn the_holder_in_a_lock_of_version_0_1_0_is_read_as_it_was_written() {
    let holder: Holder = serde_json::from_str(GOLDEN).expect("read");
    let ProcessIdentity { pid, start_ticks, boot_id } = &holder.process;
    assert_eq!((*pid, *start_ticks), (4242, 987_654_321));
    assert_eq!(boot_id, "01234567-89ab-cdef-0123-456789abcdef");
    assert_eq!(holder.pid_namespace, PathBuf::from("pid:[4026531836]"));
    assert_eq!(serde_json::to_string(&holder).expect("json"), GOLDEN, "and is still written so");
}

#[test]
fn a_lock_whose_holder_is_not_understood_counts_as_it_is_held() {
    for text in [GOLDEN.replace("pid_namespace", "namespaces"), GOLDEN[..40].to_owned()] {
        let (dir, lock) = instance(None);
        fs::write(dir.path().join(LOCK), &text).expect("written");
        assert!(!is_dead(dir.path()), "{text}");
        lock.unlock().expect("let go");
        assert!(is_dead(dir.path()), "{text}");
    }
}

#[test]
fn one_machine_that_cannot_be_undone_does_not_keep_the_others() {
    let run = tempfile::tempdir().expect("a directory");
    let instance = run.path().join("instance");
    for name in ["a", "b", "c"] {
        fs::create_dir_all(instance.join(name)).expect("made");
    }
    File::create(instance.join(LOCK)).expect("a free lock");
    fs::write(instance.join("b/record.json"), r#"{"format":2}"#).expect("written");
    let reclaimed = reclaim_dead(run.path()).expect("read");
    assert_eq!(reclaimed, Reclaimed { supervisors: 1, stubborn: 1 });
    assert!(!instance.join("a").exists() && !instance.join("c").exists());
    assert!(instance.join("b/record.json").exists(), "what is not understood is left alone");
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
