//! Machines that die under their callers: the loss is typed, and nothing of the machine stays.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle::agent::ExecuteRequest;
use rekindle::vm::{Death, Lost, Vm};
use rekindle_e2e::guest::{answers, as_root, python, shell};
use rekindle_e2e::{Lab, leftovers};
use rekindle_test_support::wait::until;

/// Runs `request`, does `deed` meanwhile, and returns who is to blame for the failure.
async fn lose(lab: &Lab, vm: &Vm, request: ExecuteRequest, deed: impl FnOnce()) -> Option<Lost> {
    let work_dir = lab.work_dir(vm);
    let machines = BTreeSet::from([vm.id().to_string()]);
    let execution = vm.agent().execute(request).await.expect("started");
    deed();
    let error = tokio::time::timeout(Duration::from_secs(120), execution.wait())
        .await
        .expect("the loss is noticed")
        .expect_err("the machine is lost");
    let lost = vm.blame(&error).await;
    vm.ended().await;
    assert!(!work_dir.exists(), "its directory is gone");
    assert!(leftovers::find(&work_dir, &machines, &BTreeSet::new()).cgroups.is_empty());
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_monitor_is_a_lost_machine_and_its_neighbour_lives() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let (vm, neighbour) = tokio::join!(lab.clone(), lab.clone());
    let pid = Pid::from_raw(lab.monitor(&vm).try_into().expect("a pid"));
    let lost = lose(lab, &vm, shell("sleep 100"), || kill(pid, Signal::SIGKILL).expect("killed")).await;
    assert!(matches!(&lost, Some(Lost::Vm(Death::Lost { out_of_memory: false, .. }))), "{lost:?}");
    answers(&neighbour).await;
    neighbour.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_goes_down_by_itself_is_a_lost_machine() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    // RB_AUTOBOOT: what `reboot -f` does, for which the small image has no program.
    let down = python("import ctypes; ctypes.CDLL(None).reboot(0x01234567)");
    let lost = lose(lab, &vm, as_root(down), || ()).await;
    assert!(matches!(&lost, Some(Lost::Vm(Death::Lost { .. }))), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kernel_that_panics_in_a_clone_says_why() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    // The kernel gives up when the first process dies, and no signal of a program's kills that one.
    let scramble = python(
        "import re\n\
         part = next(line for line in open('/proc/1/maps') if ' r-xp ' in line)\n\
         start, end = (int(number, 16) for number in re.match('(\\\\w+)-(\\\\w+)', part).groups())\n\
         memory = open('/proc/1/mem', 'r+b', buffering=0)\n\
         memory.seek(start)\n\
         memory.write(bytes([0xCC]) * (end - start))",
    );
    let lost = lose(lab, &vm, as_root(scramble), || ()).await;
    let Some(Lost::Vm(death @ Death::Lost { .. })) = &lost else { panic!("{lost:?}") };
    let said = death.to_string();
    assert!(
        said.starts_with("the kernel of its machine panicked: Attempted to kill init!"),
        "{said}: {lost:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_cannot_be_killed_from_inside() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    for request in [shell("kill -9 1"), as_root(shell("kill -9 1; kill -15 1; kill -11 1"))] {
        vm.agent().run(request).await.expect("an end");
        answers(&vm).await;
    }
    vm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_machine_is_stopped_and_leaves_nothing() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    let (work_dir, monitor) = (lab.work_dir(&vm), lab.monitor(&vm));
    let machines = BTreeSet::from([vm.id().to_string()]);
    drop(vm);
    until("nothing is left", || {
        !work_dir.exists() && leftovers::find(&work_dir, &machines, &BTreeSet::new()).cgroups.is_empty()
    })
    .await;
    let words = std::fs::read_to_string(format!("/proc/{monitor}/cmdline")).unwrap_or_default();
    assert!(!words.contains("qemu") && !words.contains("firecracker"), "{words}");
}
