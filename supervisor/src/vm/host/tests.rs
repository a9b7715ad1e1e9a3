//! Where machines write to, and what is refused where that cannot be limited.

use super::*;
use crate::engine::IoThrottle;
use crate::engine::fake::FakeEngine;
use crate::host::cgroup::CgroupError;
use crate::store::Store;
use crate::vm::{Plan, Reserved, ScratchPlan, StartError};

fn open(data: &Path, cgroups: CgroupManager, require_limits: bool) -> VmHost {
    let engine = Arc::new(FakeEngine::new(|_| {}));
    let config = VmHostConfig { engine, cgroups, require_limits, data_dir: data.to_owned(), users: None };
    VmHost::open(config).expect("opened")
}

fn plan(io: IoThrottle) -> Plan {
    Plan {
        vcpus: 1,
        memory_mib: 64,
        image: PathBuf::from("/nonexistent"),
        scratch: ScratchPlan::Blank { mib: 16, staging: None },
        cpu: None,
        cpu_weight: Default::default(),
        io,
        deadline: std::time::Duration::from_secs(60),
    }
}

#[test]
fn the_disk_that_is_limited_is_the_run_directorys() {
    let data = tempfile::tempdir().expect("a directory");
    let (Disk::Block(..), Ok(memory)) = (Disk::of(data.path()), tempfile::tempdir_in("/dev/shm")) else {
        rekindle_test_support::skip!("there are not both a disk and a /dev/shm here");
    };
    if Disk::of(memory.path()) != Disk::Memory {
        rekindle_test_support::skip!("/dev/shm is no file system in memory here");
    }
    assert_eq!(open(data.path(), CgroupManager::none("none"), false).disk, Disk::of(data.path()));
    fs::remove_dir(data.path().join("run")).expect("empty");
    std::os::unix::fs::symlink(memory.path(), data.path().join("run")).expect("linked");
    assert_eq!(open(data.path(), CgroupManager::none("none"), false).disk, Disk::Memory);
}

#[tokio::test]
async fn a_limit_of_traffic_that_no_group_can_set_is_refused_where_limits_are_demanded() {
    let data = tempfile::tempdir().expect("a directory");
    // As `open` finds it on a file system that is on no single disk. That of processes stands in for one.
    assert_eq!(Disk::of(Path::new("/proc")), Disk::Unknown);
    let all = CgroupManager::enforcing_all_for_tests();
    let reason = "it is on no single disk".to_owned();
    let cgroups = all.without(Unenforced { limit: LimitKind::Io, reason });
    let mut host = open(data.path(), cgroups, true);
    host.disk = Disk::Unknown;
    let bounded = IoThrottle { bytes_per_second: Some(1 << 20), operations_per_second: None };
    let error = Reserved::reserve(&host, &plan(bounded)).await.expect_err("refused");
    let StartError::Cgroup(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("hint: put the data directory on one local disk"), "{error}");
    let CgroupError::Required { missing } = error else { panic!("{error:?}") };
    assert_eq!(missing.iter().map(|entry| entry.limit).collect::<Vec<_>>(), [LimitKind::Io]);
    let unbounded = Reserved::reserve(&host, &plan(IoThrottle::default())).await;
    assert!(!matches!(unbounded, Err(StartError::Cgroup(_))), "what nobody asked for is not missed");
}

#[test]
fn a_machine_that_will_be_frozen_may_write_its_memory_into_memory() {
    let data = tempfile::tempdir().expect("a directory");
    let host = open(data.path(), CgroupManager::none("none"), false);
    let clone = plan(IoThrottle::default());
    let store = Store::open(data.path()).expect("a store");
    let staging = store.stage(&"frozen".parse().expect("a name")).expect("staged");
    let scratch = ScratchPlan::Blank { mib: 16, staging: Some(staging.dir().clone()) };
    let frozen = Plan { scratch, ..clone.clone() };
    let memory = |plan| crate::vm::limits::limits(&host, plan).memory_bytes.expect("limited");
    assert_eq!(memory(&frozen) - memory(&clone), 64 << 20);
}
