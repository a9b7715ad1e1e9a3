//! The choice on made-up hosts.

use super::{DetectError, EngineChoice, HostFacts, decide};
use crate::engine::EngineKind;
use crate::engine::firecracker::{FirecrackerVersion, FoundFirecracker};
use crate::engine::qemu::{FoundQemu, QemuVersion};
use crate::host::kvm::KvmStatus;

fn qemu() -> Result<FoundQemu, String> {
    Ok(FoundQemu {
        path: "/usr/bin/qemu-system-x86_64".into(),
        version: QemuVersion { major: 7, minor: 2, micro: 22 },
        version_text: "7.2.22".into(),
    })
}

fn facts(kvm: KvmStatus, firecracker: bool, qemu: Result<FoundQemu, String>) -> HostFacts {
    let found = FoundFirecracker {
        path: "/usr/local/bin/firecracker".into(),
        jailer: "/usr/local/bin/jailer".into(),
        version: FirecrackerVersion::MINIMUM,
    };
    let firecracker = if firecracker { Ok(found) } else { Err("no binary\nhint: install it".to_owned()) };
    HostFacts { kvm, firecracker, qemu, can_guard: true }
}

#[test]
fn firecracker_is_preferred_where_it_can_run() {
    let decision = decide(EngineChoice::Auto, &facts(KvmStatus::Usable, true, qemu())).expect("chosen");
    assert_eq!(decision.engine, EngineKind::Firecracker);
}

#[test]
fn without_usable_kvm_qemu_is_chosen_and_the_line_says_why() {
    let decision = decide(EngineChoice::Auto, &facts(KvmStatus::NoExtensions, true, qemu())).expect("chosen");
    assert_eq!(
        decision.to_string(),
        "engine qemu: QEMU 7.2.22 in software emulation, because firecracker cannot be used: /dev/kvm is there \
         but the processor shows neither vmx nor svm"
    );
}

#[test]
fn without_a_firecracker_binary_qemu_runs_on_kvm() {
    let decision = decide(EngineChoice::Auto, &facts(KvmStatus::Usable, false, qemu())).expect("chosen");
    assert_eq!(decision.engine, EngineKind::Qemu);
    assert!(decision.reason.contains("on KVM") && !decision.reason.contains('\n'), "{}", decision.reason);
}

#[test]
fn a_forced_engine_that_cannot_run_is_an_error_with_a_hint() {
    let forced = EngineChoice::Forced(EngineKind::Firecracker);
    let error = decide(forced, &facts(KvmStatus::NoDevice, true, qemu())).expect_err("refused");
    assert!(matches!(error, DetectError::Forced { .. }));
    assert!(error.to_string().contains("there is no /dev/kvm\nhint: "), "{error}");
    let forced = EngineChoice::Forced(EngineKind::Qemu);
    let error =
        decide(forced, &facts(KvmStatus::NoDevice, true, Err("missing".into()))).expect_err("refused");
    assert_eq!(error.to_string(), "engine qemu cannot run here: missing");
}

#[test]
fn a_host_without_any_engine_hears_what_each_lacks() {
    let lacking = facts(KvmStatus::NoDevice, true, Err("not found\nhint: install it".into()));
    let error = decide(EngineChoice::Auto, &lacking).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "no engine can run here: firecracker: there is no /dev/kvm; qemu: not found\nhint: install it"
    );
}

#[test]
fn a_container_that_may_not_watch_its_monitors_hears_which_capability_to_add() {
    let bare = |kvm| HostFacts { can_guard: false, ..facts(kvm, true, qemu()) };
    let error = decide(EngineChoice::Auto, &bare(KvmStatus::NoDevice)).expect_err("refused").to_string();
    assert!(error.contains("SYS_PTRACE is missing\nhint: give it to the container"), "{error}");
    // Firecracker's monitors are held by their jail.
    assert!(decide(EngineChoice::Auto, &bare(KvmStatus::Usable)).is_ok());
}

#[test]
fn engine_names_are_parsed_and_others_refused_with_a_hint() {
    assert_eq!("auto".parse(), Ok(EngineChoice::Auto));
    assert_eq!("qemu".parse(), Ok(EngineChoice::Forced(EngineKind::Qemu)));
    let error = "xen".parse::<EngineChoice>().expect_err("unknown");
    assert!(error.contains("hint: "), "{error}");
}
