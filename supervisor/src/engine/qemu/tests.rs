//! Pure parts: versions and command lines.

use super::QemuVersion;
use super::args::{self, Accelerator, BootMemory, Descriptors, Mode};
use crate::engine::{Hardware, IoThrottle};

fn hardware() -> Hardware {
    Hardware { vcpus: 2, memory_mib: 512, image: "/image".into(), scratch: "/scratch".into() }
}

const FDS: Descriptors = Descriptors { control: 11, agent: 12, image: 13, scratch: 14, scratch_look: 15 };

fn line(accelerator: Accelerator, io: IoThrottle, mode: &Mode<'_>) -> String {
    let args = args::build(&hardware(), accelerator, io, FDS, mode);
    args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn boot(memory: BootMemory) -> Mode<'static> {
    Mode::Boot { kernel: 20, command_line: "quiet", console: 21, memory }
}

#[test]
fn versions_are_read_as_distributions_print_them() {
    let parse = |text| QemuVersion::parse(text).map(|version| version.to_string());
    let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";
    assert_eq!(parse(debian).as_deref(), Some("7.2.22"));
    assert_eq!(parse("QEMU emulator version 10.0.2").as_deref(), Some("10.0.2"));
    assert_eq!(parse("QEMU emulator version 9.1.0-rc1\n").as_deref(), Some("9.1.0"));
    assert_eq!(parse("GNU bash"), None);
    assert_eq!(parse(""), None);
}

#[test]
fn file_migration_is_used_from_8_2_on() {
    let has = |major, minor| QemuVersion { major, minor, micro: 0 }.has_file_migration();
    assert_eq!([has(7, 2), has(8, 1), has(8, 2), has(10, 0)], [false, false, true, true]);
}

#[test]
fn booting_and_restoring_have_the_same_devices_in_the_same_order() {
    let devices = |mode: &Mode<'_>| {
        let args = args::build(&hardware(), Accelerator::Tcg, IoThrottle::default(), FDS, mode);
        let mut found = Vec::new();
        for pair in args.windows(2) {
            if pair[0] == "-device" || pair[0] == "-machine" || pair[0] == "-cpu" || pair[0] == "-smp" {
                found.push(pair[1].clone());
            }
        }
        found
    };
    assert_eq!(devices(&boot(BootMemory::SharedFile)), devices(&Mode::Restore));
    assert_eq!(devices(&Mode::Restore).len(), 8);
}

#[test]
fn a_clone_maps_its_memory_privately_and_a_template_shares_it() {
    let none = IoThrottle::default();
    assert!(line(Accelerator::Tcg, none, &boot(BootMemory::SharedFile)).contains("share=on"));
    let clone = line(Accelerator::Tcg, none, &Mode::Restore);
    assert!(clone.contains("share=off") && clone.contains("-S -incoming defer"), "{clone}");
    assert!(clone.contains("server=on,wait=on"), "{clone}");
    assert!(!clone.contains(" -kernel ") && clone.contains("stdio,id=console"), "{clone}");
    assert!(line(Accelerator::Tcg, none, &boot(BootMemory::Anonymous)).contains("memory-backend-ram"));
}

#[test]
fn every_machine_runs_in_the_sandbox_and_opens_no_path_of_the_host() {
    for mode in [boot(BootMemory::SharedFile), Mode::Restore] {
        let line = line(Accelerator::Tcg, IoThrottle::default(), &mode);
        assert!(
            line.contains("-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
        );
        assert!(!line.contains("/image") && !line.contains("/scratch"), "{line}");
    }
}

#[test]
fn throttling_reaches_the_scratch_disk_only() {
    let io = IoThrottle { bytes_per_second: Some(1_000_000), operations_per_second: Some(50) };
    let line = line(Accelerator::Tcg, io, &Mode::Restore);
    assert_eq!(line.matches("throttling.bps-total=1000000,throttling.iops-total=50").count(), 1);
}

#[test]
fn the_kernel_is_told_where_agent_root_and_clock_are() {
    let line = args::command_line(Accelerator::Tcg, Some(2_100_000), &["extra=1".to_owned()]);
    for word in [
        "root=/dev/vda",
        "rootfstype=erofs",
        "init=/sbin/rekindle-agent",
        "rekindle.transport=port:rekindle.agent",
        "tsc=reliable",
        "tsc_early_khz=2100000",
        "extra=1",
    ] {
        assert!(line.split(' ').any(|found| found == word), "{word} in {line}");
    }
    let kvm = args::command_line(Accelerator::Kvm, Some(2_100_000), &[]);
    assert!(!kvm.contains("tsc_early_khz") && !kvm.contains("mitigations"), "{kvm}");
}
