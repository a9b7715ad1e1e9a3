//! The store on a real file system: builds, damage, misfits, removal, interruption.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{Artifacts, Inputs, Machine, Origin, Snapshot, Staging, Store, StoreError};
use crate::config::{Dirs, TemplateName};
use crate::host::cpu::CpuIdentity;

const MEMORY_BYTES: u64 = 4 << 20;

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&dir.path().join("data")).expect("opened");
    (dir, store)
}

fn template() -> TemplateName {
    "minimal".parse().expect("a name")
}

fn inputs() -> Inputs {
    let cpu =
        CpuIdentity { vendor: "V".into(), name: "N".into(), signature: "1/2/3".into(), features: "f".into() };
    Inputs {
        origin: Origin { engine: "qemu".into(), version: "7.2.22".into(), accelerator: "tcg".into(), cpu },
        kernel: "k".repeat(64),
        image: "i".repeat(64),
        recipe: "r".repeat(64),
    }
}

const MACHINE: Machine = Machine { vcpus: 2, memory_mib: 4, scratch_mib: 16, scratch_traffic: None };

/// Writes what an engine would: some data, a large page with zeros in two places, and holes.
fn write_files(dir: &Path, content: &[u8]) {
    let memory = fs::File::create(dir.join("memory")).expect("made");
    memory.set_len(MEMORY_BYTES).expect("sized");
    memory.write_all_at(content, 8192).expect("written");
    for at in [2 << 20, 3 << 20] {
        memory.write_all_at(&[0; 256 * 1024], at).expect("written");
    }
    fs::write(dir.join("state"), "state").expect("written");
    // A disk: little in it, and zeros beside it.
    let mut scratch = vec![0; 1 << 20];
    scratch[..7].copy_from_slice(b"scratch");
    fs::write(dir.join("scratch"), scratch).expect("written");
}

fn build(store: &Store, content: &[u8], inputs: Inputs) -> Snapshot {
    let staging: Staging = store.stage(&template()).expect("staged");
    write_files(staging.dir().path(), content);
    staging.commit(inputs, MACHINE, "0.1.0").expect("committed")
}

fn staged(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("data/staging")).expect("readable").count()
}

const GOLDEN: &str = include_str!("../../tests/golden/0.1.0/manifest.json");
/// The address of what it describes: it names the directory, so that another one would lose every snapshot.
const GOLDEN_DIGEST: &str = "70a7287db749df77185921220ae84f24";

/// Puts a manifest where a snapshot of this name has it.
fn put(store: &Store, name: &str, manifest: &str) {
    let dir = store.template_dir(&template()).join(name);
    fs::create_dir_all(&dir).expect("made");
    fs::write(dir.join("manifest.json"), manifest).expect("written");
}

#[test]
fn a_manifest_of_version_0_1_0_is_read_as_it_was_written() {
    let (_dir, store) = store();
    put(&store, GOLDEN_DIGEST, GOLDEN);
    let listed = store.list().expect("listed");
    let manifest = listed[0].manifest.as_ref().expect("understood");
    assert_eq!((manifest.format, manifest.created, manifest.agent.as_str()), (1, 1_794_873_600, "0.1.0"));
    assert_eq!(manifest.inputs.origin.cpu.signature, "6/143/8");
    assert_eq!(manifest.inputs.recipe, "3".repeat(64));
    assert_eq!(
        (manifest.machine.vcpus, manifest.machine.memory_mib, manifest.machine.scratch_mib),
        (2, 512, 1024)
    );
    let traffic = manifest.machine.scratch_traffic.expect("bounded");
    assert_eq!((traffic.bytes_per_second, traffic.operations_per_second), (Some(104_857_600), None));
    assert_eq!((manifest.state.size, manifest.scratch.sha256.as_str()), (23_456, "6".repeat(64).as_str()));
    assert_eq!(serde_json::to_string_pretty(manifest).expect("json"), GOLDEN, "and is still written so");
}

#[test]
fn a_snapshot_of_another_format_is_named_as_such_and_does_not_hide_what_can_be_built() {
    let (_dir, store) = store();
    // A newer one need not have anything else that is known.
    for (name, manifest) in [("newer", r#"{"format":2,"layers":[]}"#), ("older", r#"{"format":0}"#)] {
        put(&store, name, manifest);
    }
    put(&store, "none", r#"{"template":"minimal"}"#);
    for entry in store.list().expect("listed") {
        let error = entry.manifest.expect_err("not understood");
        match entry.dir.file_name().and_then(|name| name.to_str()) {
            Some("newer") => assert!(matches!(error, StoreError::Format { format: 2, .. }), "{error}"),
            Some("older") => assert!(matches!(error, StoreError::Format { format: 0, .. }), "{error}"),
            _ => assert!(matches!(error, StoreError::Damaged { .. }), "{error}"),
        }
    }
    let error = store.load(&template(), &inputs()).expect_err("none that can be used");
    assert!(matches!(error, StoreError::Missing { .. }), "it is built again: {error}");
    build(&store, b"new", inputs());
    store.load(&template(), &inputs()).expect("beside the others");
}

#[test]
fn a_committed_snapshot_is_found_read_only_and_sparse() {
    let (dir, store) = store();
    let built = build(&store, b"hello", inputs());
    let loaded = store.load(&template(), &inputs()).expect("found");
    assert_eq!(loaded.manifest(), built.manifest());
    assert_eq!(loaded.dir().file_name().and_then(|n| n.to_str()), Some(built.manifest().digest().as_str()));
    for name in ["memory", "state", "scratch"] {
        let facts = fs::metadata(loaded.dir().join(name)).expect("there");
        assert_eq!(facts.permissions().mode() & 0o777, 0o444);
    }
    let facts = fs::metadata(loaded.dir().join("memory")).expect("there");
    assert_eq!(facts.len(), MEMORY_BYTES);
    assert!(facts.blocks() * 512 <= 64 * 1024, "{} bytes are allocated", facts.blocks() * 512);
    let disk = fs::metadata(loaded.dir().join("scratch")).expect("there");
    assert!(disk.blocks() * 512 <= 16 * 1024, "clones copy {} bytes of it", disk.blocks() * 512);
    let mut bytes = [0; 5];
    fs::File::open(loaded.dir().join("memory"))
        .expect("opened")
        .read_exact_at(&mut bytes, 8192)
        .expect("read");
    assert_eq!(&bytes, b"hello");
    loaded.verify().expect("intact");
    assert_eq!(staged(&dir), 0);
    let root = fs::metadata(dir.path().join("data")).expect("there");
    assert_eq!(root.permissions().mode() & 0o777, 0o700, "others cannot look into it");
}

#[test]
fn each_input_that_differs_is_named() {
    let (_dir, store) = store();
    build(&store, b"x", inputs());
    let change = |change: fn(&mut Inputs)| {
        let mut wanted = inputs();
        change(&mut wanted);
        store.load(&template(), &wanted).expect_err("it does not fit").to_string()
    };
    for (error, word) in [
        (
            change(|i| i.origin.engine = "firecracker".into()),
            "the engine is qemu in the snapshot and firecracker here",
        ),
        (change(|i| i.origin.version = "10.0".into()), "the monitor's version is 7.2.22"),
        (change(|i| i.origin.accelerator = "kvm".into()), "the accelerator"),
        (change(|i| i.origin.cpu.name = "M".into()), "the processor's name"),
        (change(|i| i.origin.cpu.features = "g".into()), "the processor's feature set"),
        (change(|i| i.kernel = "1".repeat(64)), "the kernel"),
        (change(|i| i.image = "2".repeat(64)), "the root image"),
        (change(|i| i.recipe = "3".repeat(64)), "the recipe"),
    ] {
        assert!(error.contains(word) && error.contains("hint: "), "{error}");
        assert_eq!(error.matches("in the snapshot and").count(), 1, "only what differs: {error}");
    }
}

#[test]
fn what_was_renewed_is_told_from_what_was_made_elsewhere_and_from_another_engines() {
    use super::DifferenceKind;
    let (_dir, store) = store();
    drop(build(&store, b"hello", inputs()));
    let kinds = |change: &dyn Fn(&mut Inputs)| {
        let mut wanted = inputs();
        change(&mut wanted);
        match store.load(&template(), &wanted).map(|_| ()).expect_err("it does not fit") {
            StoreError::Incompatible { differences, .. } => {
                differences.iter().map(|one| one.kind).collect::<Vec<_>>()
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(kinds(&|wanted| wanted.image = "j".repeat(64)), [DifferenceKind::Input]);
    assert_eq!(kinds(&|wanted| wanted.origin.version = "9".into()), [DifferenceKind::Origin]);
    assert_eq!(kinds(&|wanted| wanted.origin.cpu.name = "M".into()), [DifferenceKind::Origin]);
    let other = |wanted: &mut Inputs| wanted.origin.engine = "firecracker".into();
    assert_eq!(kinds(&other), [DifferenceKind::Engine]);
    // With one of this engine's own, that is the one that should have fitted.
    let mut old = inputs();
    (old.origin.engine, old.origin.version) = ("firecracker".into(), "1.15.0".into());
    drop(build(&store, b"other", old));
    let newer = |wanted: &mut Inputs| {
        (wanted.origin.engine, wanted.origin.version) = ("firecracker".into(), "1.16.1".into());
    };
    assert_eq!(kinds(&newer), [DifferenceKind::Origin]);
}

#[test]
fn a_template_without_snapshots_is_missing_with_a_hint() {
    let (_dir, store) = store();
    let error = store.load(&template(), &inputs()).map(|_| ()).expect_err("missing");
    assert!(matches!(error, StoreError::Missing { .. }));
    assert!(error.to_string().contains("hint: run `rekindle template build minimal`"), "{error}");
}

/// Writes into a protected file as its owner could.
fn tamper(path: &Path, change: impl FnOnce(&fs::File)) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("made writable");
    change(&OpenOptions::new().read(true).write(true).open(path).expect("opened"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("protected");
}

#[test]
fn a_flipped_bit_a_truncation_and_an_edited_manifest_are_damage() {
    for (file, word) in [
        ("memory", "hash"),
        ("state", "hash"),
        ("scratch", "hash"),
        ("truncated", "bytes"),
        ("manifest.json", "manifest"),
    ] {
        let (_dir, store) = store();
        let snapshot = build(&store, b"precious", inputs());
        let dir = snapshot.dir().to_owned();
        drop(snapshot);
        match file {
            "truncated" => tamper(&dir.join("memory"), |f| f.set_len(MEMORY_BYTES - 1).expect("cut")),
            "manifest.json" => {
                let text =
                    fs::read_to_string(dir.join(file)).expect("read").replace("\"vcpus\": 2", "\"vcpus\": 3");
                fs::write(dir.join(file), text).expect("written");
            }
            _ => tamper(&dir.join(file), |f| f.write_all_at(b"!", 0).expect("written")),
        }
        let error = store.load(&template(), &inputs()).map(|_| ()).expect_err(file);
        if file == "manifest.json" {
            assert!(matches!(error, StoreError::Missing { .. }), "{error}");
            let listed = store.list().expect("listed");
            let error = listed[0].manifest.as_ref().expect_err("damaged").to_string();
            assert!(error.contains(word), "{error}");
        } else {
            assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
            assert!(error.to_string().contains(word) && error.to_string().contains("hint: "), "{error}");
        }
    }
}

#[test]
fn an_untouched_snapshot_is_not_hashed_again_and_a_touched_one_is() {
    let (_dir, store) = store();
    let snapshot = build(&store, b"x", inputs());
    let stamp = snapshot.dir().join("verified.json");
    let first = fs::metadata(&stamp).expect("there").ino();
    store.load(&template(), &inputs()).expect("loaded");
    assert_eq!(fs::metadata(&stamp).expect("there").ino(), first, "the stamp was good");
    tamper(&snapshot.dir().join("state"), |_| {});
    store.load(&template(), &inputs()).expect("loaded after a full check");
    assert_ne!(fs::metadata(&stamp).expect("there").ino(), first, "the stamp was renewed");
}

#[test]
fn a_directory_given_up_while_somebody_writes_into_it_is_removed_after_that() {
    let (dir, store) = store();
    let staging = store.stage(&template()).expect("staged");
    let writer = staging.dir().clone();
    drop(staging);
    store.reclaim().expect("no trouble");
    write_files(writer.path(), b"x");
    assert_eq!(staged(&dir), 1, "it is in use, and others know it");
    drop(writer);
    assert_eq!(staged(&dir), 0);
}

#[test]
fn a_build_that_is_given_up_leaves_nothing() {
    let (dir, store) = store();
    let staging = store.stage(&template()).expect("staged");
    write_files(staging.dir().path(), b"x");
    drop(staging);
    let staging = store.stage(&template()).expect("staged");
    staging.commit(inputs(), MACHINE, "0").map(|_| ()).expect_err("no files");
    assert_eq!(staged(&dir), 0);
    assert!(store.list().expect("listed").is_empty());
}

#[test]
fn an_interrupted_build_is_reclaimed_and_a_running_one_is_not() {
    let (dir, store) = store();
    let running = store.stage(&template()).expect("staged");
    let interrupted = store.stage(&template()).expect("staged");
    write_files(interrupted.dir().path(), b"x");
    let left = interrupted.dir().path().to_owned();
    // What a killed process leaves: the files, without the lock.
    std::mem::forget(interrupted);
    let copy = dir.path().join("data/staging/killed");
    fs::create_dir(&copy).expect("made");
    write_files(&copy, b"x");
    assert_eq!(store.reclaim().expect("reclaimed"), 1);
    assert!(running.dir().path().exists() && left.exists() && !copy.exists());
}

#[test]
fn the_same_content_built_twice_is_stored_once() {
    let (dir, store) = store();
    let (first, second) = (build(&store, b"same", inputs()), build(&store, b"same", inputs()));
    assert_eq!(first.dir(), second.dir());
    assert_eq!((store.list().expect("listed").len(), staged(&dir)), (1, 0));
}

#[test]
fn what_is_in_use_is_not_removed() {
    let (dir, store) = store();
    let used = build(&store, b"used", inputs());
    drop(build(&store, b"unused", inputs()));
    let collected = store.collect(Duration::ZERO, |_| false).expect("collected");
    assert_eq!((collected.removed.len(), collected.in_use), (1, 1));
    assert!(collected.freed_bytes > 0);
    let entry = store.list().expect("listed").pop().expect("the used one");
    assert!(matches!(store.remove(&entry), Err(StoreError::InUse { .. })));
    drop(used);
    store.remove(&entry).expect("removed");
    assert!(store.list().expect("listed").is_empty());
    assert_eq!(staged(&dir), 0);
}

#[test]
fn collection_keeps_what_is_needed_or_young() {
    let (_dir, store) = store();
    drop(build(&store, b"a", inputs()));
    assert!(store.collect(Duration::from_secs(3600), |_| false).expect("collected").removed.is_empty());
    assert!(
        store
            .collect(Duration::ZERO, |manifest| manifest.inputs == inputs())
            .expect("collected")
            .removed
            .is_empty()
    );
    assert_eq!(store.list().expect("listed").len(), 1);
}

#[test]
fn building_one_template_is_done_by_one_at_a_time() {
    let (_dir, store) = store();
    let lock = store.lock_build(&template()).expect("locked");
    let other = store.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let lock = other.lock_build(&template()).expect("locked in turn");
        sender.send(()).expect("told");
        drop(lock);
    });
    assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
    drop(lock);
    receiver.recv_timeout(Duration::from_secs(10)).expect("its turn comes");
    thread.join().expect("it ends");
}

#[test]
fn artifacts_are_found_by_their_manifests_and_missing_ones_come_with_a_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let artifacts = Artifacts::new(dir.path());
    let error = artifacts.kernel().expect_err("missing").to_string();
    assert!(error.contains("hint: run `cargo xtask kernel`"), "{error}");
    let image = artifacts.image(&template()).expect_err("missing").to_string();
    assert!(image.contains("the image minimal is missing"), "{image}");
    let built = dir.path().join("kernel/abc");
    fs::create_dir_all(&built).expect("made");
    fs::write(built.join("vmlinux"), "elf").expect("written");
    fs::write(built.join("manifest.json"), "{\"sha256\": \"s\", \"size_bytes\": 3, \"more\": 1}")
        .expect("written");
    std::os::unix::fs::symlink("abc", dir.path().join("kernel/current")).expect("linked");
    let kernel = artifacts.kernel().expect("found");
    assert_eq!((kernel.sha256.as_str(), kernel.path.ends_with("abc/vmlinux")), ("s", true));
    // Where there are two places, the first that has one wins, and half of one is not passed over.
    let share = dir.path().join("share");
    let both = |cache: &str| {
        Artifacts::of(&Dirs { data: "/d".into(), cache: dir.path().join(cache), share: Some(share.clone()) })
    };
    assert!(both("").kernel().is_ok(), "built here");
    assert!(both("empty").kernel().is_err());
    fs::create_dir_all(&share).expect("made");
    fs::rename(dir.path().join("kernel"), share.join("kernel")).expect("moved");
    assert!(both("empty").kernel().is_ok(), "installed");
    fs::write(share.join("kernel/abc/vmlinux"), "half").expect("written");
    assert!(matches!(both("empty").kernel(), Err(StoreError::Damaged { .. })));
}
