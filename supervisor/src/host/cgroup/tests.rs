//! Control groups: parsing, a directory that looks like the unified hierarchy, and the real ones here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rekindle_test_support::wait::until;

use super::table::{Hierarchies, Own};
use super::{
    CgroupError, CgroupManager, CgroupVersion, CpuQuota, CpuWeight, IoLimit, LimitKind, Limits, Usage,
};
use crate::host::process::{Process, ProcessSpec, spawn};
use crate::host::undo;

const HYBRID_MOUNTS: &str = "\
22 20 0:20 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
23 20 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
24 20 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
25 20 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

fn own(mount: &str, dir: &str) -> Own {
    Own { mount: mount.into(), dir: dir.into() }
}

#[test]
fn a_hybrid_host_is_understood() {
    let cgroup = "3:memory:/outer/inner\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/y\n";
    let found = Hierarchies::parse(HYBRID_MOUNTS, cgroup);
    assert_eq!(found.unified, Some(own("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/y")));
    let names: Vec<String> = found.legacy.iter().map(|(names, _)| names.join("+")).collect();
    assert_eq!(names, ["cpu+cpuacct", "memory", "name=systemd"]);
    assert_eq!(found.legacy[1].1, own("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/outer/inner"));
}

#[test]
fn a_container_that_sees_only_its_part_of_the_tree_is_understood() {
    let mounts = "22 20 0:20 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
    let found = Hierarchies::parse(mounts, "0::/docker/abc/child\n");
    assert_eq!(found.unified, Some(own("/sys/fs/cgroup", "/sys/fs/cgroup/child")));
    assert_eq!(Hierarchies::parse(mounts, "0::/elsewhere\n").unified, None);
}

/// A directory tree with the files the unified hierarchy would have.
fn pretend_unified(controllers: &str) -> (tempfile::TempDir, CgroupManager) {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join("cgroup.controllers"), controllers).expect("written");
    fs::write(root.path().join("cgroup.subtree_control"), controllers).expect("written");
    fs::create_dir(root.path().join("rekindle")).expect("made");
    fs::write(root.path().join("rekindle/cgroup.subtree_control"), controllers).expect("written");
    let own = Own { mount: root.path().to_owned(), dir: root.path().to_owned() };
    let found = Hierarchies { unified: Some(own), legacy: Vec::new() };
    let manager = CgroupManager::from_hierarchies(&found, None);
    (root, manager)
}

#[test]
fn the_unified_hierarchy_is_chosen_and_a_missing_controller_is_named() {
    let (_root, manager) = pretend_unified("cpu memory pids\n");
    assert_eq!(manager.version(), Some(CgroupVersion::V2));
    let kinds: Vec<LimitKind> = manager.unenforced().iter().map(|entry| entry.limit).collect();
    assert_eq!(kinds, [LimitKind::Io]);
    let io = IoLimit { device: (8, 0), bytes_per_second: Some(1), operations_per_second: None };
    let error = manager.require(&Limits { io: Some(io), ..Limits::default() }).expect_err("refused");
    assert!(error.to_string().contains("io ("), "{error}");
    manager.require(&Limits { pids: Some(1), ..Limits::default() }).expect("pids can be enforced");
}

#[test]
fn a_limit_that_was_taken_away_is_neither_set_nor_passed_over() {
    let (_root, manager) = pretend_unified("cpu memory pids io\n");
    let io = IoLimit { device: (0, 0), bytes_per_second: Some(1), operations_per_second: None };
    let limits = Limits { io: Some(io), ..Limits::default() };
    manager.require(&limits).expect("it can be enforced");
    let missing = super::Unenforced { limit: LimitKind::Io, reason: "no disk".to_owned() };
    let manager = manager.without(missing.clone()).without(missing);
    assert_eq!(manager.unenforced().len(), 1);
    assert!(manager.require(&limits).is_err());
    // Where it would be written there is no such file.
    drop(manager.create("vm-1", &limits).expect("made without it"));
}

#[test]
fn limits_are_written_and_read_back_in_the_unified_format() {
    let (root, manager) = pretend_unified("cpu memory pids io\n");
    let dir = root.path().join("rekindle/vm-1");
    let group = super::Cgroup {
        version: manager.version(),
        places: vec![super::group::Place {
            dir: dir.clone(),
            controllers: ["cpu", "memory", "pids", "io"].map(str::to_owned).to_vec(),
        }],
    };
    fs::create_dir(&dir).expect("made");
    for file in ["cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "io.max"] {
        fs::write(dir.join(file), "").expect("written");
    }
    let limits = Limits {
        cpu: Some(CpuQuota { millis: 500 }),
        memory_bytes: Some(640 << 20),
        pids: Some(64),
        io: Some(IoLimit { device: (8, 16), bytes_per_second: Some(1 << 20), operations_per_second: None }),
    };
    super::v2::apply(&group.places[0], &limits).expect("written");
    let text = |file: &str| fs::read_to_string(dir.join(file)).expect("readable");
    assert_eq!(text("cpu.max"), "10000 20000");
    assert_eq!(text("memory.max"), "671088640");
    assert_eq!(text("memory.swap.max"), "0");
    assert_eq!(text("io.max"), "8:16 rbps=1048576 wbps=1048576 riops=max wiops=max");
    assert_eq!(group.limits().expect("readable"), limits);
    let cpu = CpuQuota { millis: 2_000 };
    group.set_cpu(cpu).expect("written");
    let changed = Limits { cpu: Some(cpu), ..limits };
    assert_eq!(group.limits().expect("readable"), changed, "only the processors change");
    fs::write(dir.join("cpu.weight"), "").expect("written");
    group.set_cpu_weight(CpuWeight::Spare).expect("written");
    assert_eq!(text("cpu.weight"), "20");
    group.set_cpu_weight(CpuWeight::InUse).expect("written");
    assert_eq!(text("cpu.weight"), "100");
    assert_eq!(group.limits().expect("readable"), changed, "who goes first is no limit");
    fs::write(dir.join("cpu.stat"), "usage_usec 5\nuser_usec 3\nnr_throttled 2\nthrottled_usec 7\n")
        .expect("written");
    fs::write(dir.join("memory.peak"), "99\n").expect("written");
    fs::write(dir.join("memory.events"), "oom 1\noom_kill 4\n").expect("written");
    let usage = group.usage();
    assert_eq!((usage.cpu_usec, usage.throttled_usec, usage.throttled_periods), (Some(5), Some(7), Some(2)));
    assert_eq!((usage.memory_peak_bytes, usage.oom_kills), (Some(99), Some(4)));
    let ours = Duration::from_micros(37);
    assert_eq!(usage.with_ours(ours), Usage { cpu_usec: Some(42), ..usage });
    assert_eq!(Usage::default().with_ours(ours), Usage::default(), "who cannot count tells no part of it");
    // The pretended files would keep a real rmdir from working.
    fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn a_name_that_is_a_path_is_refused() {
    let (_root, manager) = pretend_unified("memory\n");
    for name in ["", "..", "a/b", "a b", &"x".repeat(65)] {
        let error = manager.create(name, &Limits::default()).expect_err(name);
        assert!(matches!(error, CgroupError::Name { .. }), "{error:?}");
    }
}

#[test]
fn without_any_hierarchy_a_group_is_an_empty_guard_and_requirements_are_refused() {
    let manager = CgroupManager::from_hierarchies(&Hierarchies::default(), None);
    assert_eq!((manager.version(), manager.unenforced().len()), (None, 4));
    let limits = Limits { pids: Some(5), ..Limits::default() };
    let group = manager.create("vm-1", &limits).expect("it still runs");
    assert_eq!(group.limits().expect("nothing to read"), Limits::default());
    assert!(group.processes().expect("nothing to read").is_empty());
    assert!(matches!(manager.require(&limits), Err(CgroupError::Required { .. })));
}

/// The real hierarchies of the machine the test runs on.
fn real() -> Option<CgroupManager> {
    let manager = CgroupManager::detect(None);
    let needed = [LimitKind::Cpu, LimitKind::Memory, LimitKind::Pids];
    let missing = manager.unenforced().iter().any(|entry| needed.contains(&entry.limit));
    (manager.version().is_some() && !missing).then_some(manager)
}

async fn shell_in(group: &super::Cgroup, script: &str) -> Process {
    spawn(ProcessSpec {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
        cgroup: Some(group.join().expect("the group can be joined")),
        ..ProcessSpec::default()
    })
    .await
    .expect("the shell starts")
}

fn name(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

#[tokio::test]
async fn a_child_starts_inside_its_group_and_closing_kills_everything_in_it() {
    let Some(manager) = real() else { rekindle_test_support::skip!("no writable cgroup controllers") };
    let limits = Limits { pids: Some(32), memory_bytes: Some(256 << 20), ..Limits::default() };
    let group = manager.create(&name("kill"), &limits).expect("made");
    assert_eq!(group.limits().expect("readable").pids, Some(32));
    assert_eq!(group.limits().expect("readable").memory_bytes, Some(256 << 20));
    let process =
        shell_in(&group, "setsid sleep 1000 & setsid sleep 1000 & cat /proc/self/cgroup; exec sleep 1000")
            .await;
    let record = group.record();
    assert!(group.processes().expect("readable").contains(&process.identity().pid));
    until("it names its group", || process.output().text().contains(&name("kill"))).await;
    group.close().await.expect("closed");
    process.wait().await;
    for dir in record.dirs {
        assert!(!dir.exists(), "{} is left", dir.display());
    }
}

#[tokio::test]
async fn a_dropped_group_is_removed_with_what_is_in_it() {
    let Some(manager) = real() else { rekindle_test_support::skip!("no writable cgroup controllers") };
    let group = manager.create(&name("drop"), &Limits::default()).expect("made");
    let process = shell_in(&group, "exec sleep 1000").await;
    let record = group.record();
    let held = undo::tests::hold_up();
    drop(group);
    assert!(record.dirs.iter().all(|dir| dir.exists()), "the runtime does not wait for the kernel");
    drop(held);
    undo::settle();
    assert!(record.dirs.iter().all(|dir| !dir.exists()));
    process.wait().await;
    record.reclaim().expect("reclaiming what is gone is fine");
}

#[tokio::test]
async fn a_group_left_by_a_killed_supervisor_is_reclaimed_from_its_record() {
    let Some(manager) = real() else { rekindle_test_support::skip!("no writable cgroup controllers") };
    let group = manager.create(&name("orphan"), &Limits::default()).expect("made");
    let process = shell_in(&group, "exec sleep 1000").await;
    let record = group.record();
    std::mem::forget(group);
    record.reclaim().expect("reclaimed");
    process.wait().await;
    assert!(record.dirs.iter().all(|dir| !dir.exists()));
}

#[tokio::test]
async fn processor_time_is_limited_and_counted() {
    let Some(manager) = real() else { rekindle_test_support::skip!("no writable cgroup controllers") };
    let limits = Limits { cpu: Some(CpuQuota { millis: 100 }), ..Limits::default() };
    let group = manager.create(&name("cpu"), &limits).expect("made");
    assert_eq!(group.limits().expect("readable").cpu, Some(CpuQuota { millis: 100 }));
    let process = shell_in(&group, "while :; do :; done").await;
    let start = Instant::now();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let usage = group.usage();
    let share = usage.cpu_usec.expect("counted") as f64 / start.elapsed().as_micros() as f64;
    assert!(share < 0.2, "a tenth of a processor was allowed, {share} used");
    assert!(usage.throttled_usec.expect("counted") > 0);
    group.close().await.expect("closed");
    process.wait().await;
}

#[tokio::test]
async fn a_group_that_eats_too_much_memory_is_killed_and_its_peak_is_known() {
    let Some(manager) = real() else { rekindle_test_support::skip!("no writable cgroup controllers") };
    let limits = Limits { memory_bytes: Some(24 << 20), ..Limits::default() };
    let group = manager.create(&name("memory"), &limits).expect("made");
    let process = shell_in(&group, "head -c 200M /dev/zero | tail -c 200M >/dev/null").await;
    let report = tokio::time::timeout(Duration::from_secs(30), process.wait()).await.expect("it ends");
    assert!(!report.is_success(), "{report}");
    let usage = group.usage();
    assert!(usage.memory_peak_bytes.is_none_or(|peak| peak <= 24 << 20), "{usage:?}");
    assert!(usage.oom_kills.is_some_and(|kills| kills > 0), "{usage:?}");
    group.close().await.expect("closed");
}

#[test]
fn a_configured_parent_is_used_with_or_without_a_leading_slash() {
    let (root, _) = pretend_unified("memory\n");
    let parent = root.path().join("custom");
    fs::create_dir(&parent).expect("made");
    fs::write(parent.join("cgroup.controllers"), "memory").expect("written");
    fs::write(parent.join("cgroup.subtree_control"), "memory").expect("written");
    let own = Own { mount: root.path().to_owned(), dir: root.path().to_owned() };
    let found = Hierarchies { unified: Some(own), legacy: Vec::new() };
    for given in ["/custom", "custom"] {
        let manager = CgroupManager::from_hierarchies(&found, Some(Path::new(given)));
        assert_eq!(manager.containers[0].dir, parent.join("rekindle"));
    }
}
