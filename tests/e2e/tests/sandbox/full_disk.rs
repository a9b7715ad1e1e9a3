//! A host disk that somebody else fills under a guest: an upload is refused, or what was answered is there.

use std::sync::Arc;

use rekindle::agent::{AgentError, GuestPath, TransferPatience, UploadOptions};
use rekindle::host::cgroup::CgroupManager;
use rekindle::vm::{Identity, UserRange, Vm, VmHost, VmHostConfig, restore_clone};
use rekindle_e2e::guest::{answers, as_root, output, shell};
use rekindle_test_support::small_disk::SmallDisk;

/// Size of the file system machines run on: less than their disks are promised.
const SMALL_MIB: u64 = 160;
const CONTENT: usize = 24 << 20;

async fn upload(vm: &Vm, path: &str, content: &[u8]) -> Result<(), AgentError> {
    let path: GuestPath = path.parse().expect("a path");
    let options = UploadOptions { size: Some(content.len() as u64), ..UploadOptions::default() };
    vm.agent().upload(&path, options, content, TransferPatience::default()).await.map(drop)
}

async fn download(vm: &Vm, path: &str) -> Vec<u8> {
    let path: GuestPath = path.parse().expect("a path");
    let mut content = Vec::new();
    let patience = TransferPatience::default();
    vm.agent().download(&path, 1 << 30, &mut content, patience).await.expect("downloaded");
    content
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_to_a_full_host_disk_fails_and_never_becomes_another_file() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let small = match SmallDisk::mount(SMALL_MIB) {
        Ok(small) => small,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let host = VmHost::open(VmHostConfig {
        engine: Arc::clone(lab.host.engine()),
        cgroups: CgroupManager::detect(None),
        require_limits: false,
        data_dir: small.path().to_owned(),
        users: nix::unistd::geteuid().is_root().then_some(UserRange::DEFAULT),
    })
    .expect("a host");
    let vm = restore_clone(&host, &lab.snapshot, &lab.source.plan(), &Identity::default())
        .await
        .expect("a clone is restored");
    let before: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    upload(&vm, "before", &before).await.expect("there is room");

    small.fill();
    let content: Vec<u8> = (0..CONTENT).map(|at| (at % 253) as u8).collect();
    let refused = upload(&vm, "after", &content).await.expect_err("it cannot be kept");
    assert!(matches!(refused, AgentError::Refused { .. }), "{refused:?}");
    // And from the disk, not from what the guest remembers of it.
    let forget = "sync; echo 3 > /proc/sys/vm/drop_caches; ls -a /home/*/after 2>/dev/null; echo done";
    assert_eq!(output(&vm, as_root(shell(forget))).await, "done", "no such file came to be");
    assert_eq!(download(&vm, "before").await, before, "what was answered is there");
    answers(&vm).await;
    vm.stop().await;
    drop(host);
}
