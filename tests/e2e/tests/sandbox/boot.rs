//! The built kernel and image come to life, and are what their recipes say.

use rekindle::agent::{KillScope, Outcome};
use rekindle::vm::{Identity, restore_clone};
use rekindle_e2e::guest::{answers, as_root, node, output, python, run, shell};
use sha2::{Digest, Sha256};

/// Options of the guest's kernel that somebody would miss: the list of what a developer's machine needs.
const OPTIONS: &[&str] = &[
    "OVERLAY_FS",
    "EROFS_FS",
    "EXT4_FS",
    "TMPFS",
    "CGROUPS",
    "MEMCG",
    "CGROUP_PIDS",
    "CGROUP_SCHED",
    "CFS_BANDWIDTH",
    "BLK_CGROUP",
    "CPUSETS",
    "NAMESPACES",
    "USER_NS",
    "PID_NS",
    "NET_NS",
    "SECCOMP",
    "SECCOMP_FILTER",
    "UNIX",
    "INET",
    "VSOCKETS",
    "VIRTIO_VSOCKETS",
    "VIRTIO_MMIO",
    "VIRTIO_BLK",
    "VIRTIO_NET",
    "VIRTIO_CONSOLE",
    "HW_RANDOM_VIRTIO",
    "VIRTIO_BALLOON",
    "VMGENID",
    "KVM_GUEST",
    "FUTEX",
    "EPOLL",
    "IO_URING",
    "USERFAULTFD",
    "INOTIFY_USER",
    "FUSE_FS",
    "HUGETLBFS",
    "BINFMT_SCRIPT",
    "PVH",
];

/// A template for what only the big image has; without the long warm-up of the real one.
const PYTHON_NODE: &str = r#"
description = "the big image, barely warmed up"
image = "python-node"
vcpus = 2
memory_mib = 1024
scratch_mib = 256
[[warmup]]
timeout_s = 600
code = { language = "python", source = "import numpy" }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_boot_ends_at_an_agent_that_runs_programs_as_the_unprivileged_user() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.cold_boot().await.expect("booted");
    let hello = vm.agent().hello();
    assert!(hello.capabilities.init && hello.capabilities.memory_limits && hello.capabilities.pids_limits);
    assert_eq!(hello.capabilities.kill_scope, KillScope::Cgroup);
    answers(&vm).await;
    let who = output(&vm, python("import os; print(os.getuid(), os.getcwd(), 6 * 7)")).await;
    assert_eq!(who, "1000 /home/user 42");
    let who = output(&vm, node("console.log(process.getuid(), 6 * 7)")).await;
    assert_eq!(who, "1000 42");

    let size = output(&vm, shell("nproc; grep MemTotal /proc/meminfo")).await;
    let numbers: Vec<u64> = size.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (vcpus, memory_kib) =
        (u64::from(lab.source.recipe.vcpus), u64::from(lab.source.recipe.memory_mib) * 1024);
    assert_eq!(numbers[0], vcpus);
    // The kernel itself takes a little before it counts.
    assert!((memory_kib * 9 / 10..=memory_kib).contains(&numbers[1]), "{size}");
    vm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_a_guest_writes_reaches_its_image_or_another_guest() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let image = &lab.source.image;
    let vm = lab.clone().await;
    for path in ["/usr/bin/own", "/etc/own", "/own", "/usr/local/lib/own"] {
        let refused = run(&vm, shell(&format!("echo x > {path}"))).await;
        assert_ne!(refused.outcome, Outcome::Exited(0), "the user wrote {path}");
    }
    // The guest's root may change its own view, but neither the disk below nor the way it is mounted.
    let disk = run(&vm, as_root(shell("dd if=/dev/zero of=/dev/vda bs=4096 count=4 conv=fsync"))).await;
    assert_ne!(disk.outcome, Outcome::Exited(0), "{}", disk.stderr.text);
    assert_eq!(output(&vm, as_root(shell("cat /sys/block/vda/ro"))).await, "1");
    let root = output(&vm, shell("grep ' / ' /proc/mounts")).await;
    assert!(root.starts_with("overlay / overlay "), "{root}");
    assert_eq!(
        output(&vm, as_root(shell("echo changed > /etc/os-release && cat /etc/os-release"))).await,
        "changed"
    );

    let neighbour = lab.clone().await;
    assert!(output(&neighbour, shell("cat /etc/os-release")).await.contains("Debian"));
    neighbour.stop().await;
    vm.stop().await;
    let hash = Sha256::digest(std::fs::read(&image.path).expect("readable"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, image.sha256, "the image is as it was built");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_running_kernel_has_what_a_developer_machine_needs() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    // Not printed whole: the answer to an execution is at most 4,000 characters.
    let script = format!(
        "import gzip; text = gzip.open('/proc/config.gz', 'rt').read().splitlines()\n\
         print(' '.join(name for name in '{} MODULES'.split() if f'CONFIG_{{name}}=y' in text))",
        OPTIONS.join(" ")
    );
    let config = output(&vm, python(&script)).await;
    let built_in: Vec<&str> = config.split(' ').collect();
    let missing: Vec<_> = OPTIONS.iter().filter(|option| !built_in.contains(option)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in the running kernel");
    assert!(!built_in.contains(&"MODULES"));
    vm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_shell_starts_no_program_before_its_command() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    let traced = output(&vm, shell("bash -xlc 'echo begun' 2>&1")).await;
    assert!(traced.contains("PATH=/usr/local/bin:") && traced.contains("+ echo begun"), "{traced}");
    for program in ["id -u", "run-parts"] {
        assert!(!traced.contains(program), "{traced}");
    }
    vm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_big_image_has_the_tools_and_libraries_agents_reach_for_and_clones_draw_their_own_numbers() {
    let lab = lab!();
    let source = match lab.source_of("python-node", PYTHON_NODE) {
        Ok(source) => source,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let _turn = lab.turn().await;
    let built = source.build(&lab.host, &lab.store, &|_| {}).await.expect("the template is built");
    let (plan, identity) = (source.plan(), Identity::default());
    let restore = || restore_clone(&lab.host, &built.snapshot, &plan, &identity);
    let (one, other) = (restore().await.expect("a clone"), restore().await.expect("a clone"));
    let draw = "import numpy; print(numpy.random.default_rng().integers(1 << 60), numpy.random.random())";
    let (drawn, also) = tokio::join!(output(&one, python(draw)), output(&other, python(draw)));
    for (mine, theirs) in drawn.split(' ').zip(also.split(' ')) {
        assert_ne!(mine, theirs, "numpy draws the same in both clones");
    }
    other.stop().await;
    let libraries = "import pandas, matplotlib; print(pandas.Series([1, 2]).sum())";
    assert_eq!(output(&one, python(libraries)).await, "3");
    let versions = output(&one, shell("git --version; rg --version; node --version")).await;
    for words in ["git version", "ripgrep", "\nv24."] {
        assert!(versions.contains(words), "{words:?} is not in {versions}");
    }
    one.stop().await;
}
