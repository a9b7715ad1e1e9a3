//! Made-up hosts.

use std::fs;

use super::{Advice, advise_on};

fn host(files: &[(&str, &str)]) -> Vec<Advice> {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
    advise_on(dir.path())
}

fn open(advice: &[Advice]) -> Vec<&str> {
    advice.iter().filter(|advice| !advice.is_fine()).map(|advice| advice.topic).collect()
}

#[test]
fn a_host_set_up_for_production_has_nothing_to_do() {
    let advice = host(&[
        ("sys/devices/system/cpu/smt/control", "off\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/kernel/mm/ksm/run", "0\n"),
        ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n"),
        ("proc/cmdline", "root=/dev/sda1 quiet nosmt=force\n"),
        ("proc/meminfo", "MemTotal: 1 kB\nHugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n"),
    ]);
    assert_eq!(open(&advice), Vec::<&str>::new());
    assert_eq!(advice.len(), 5);
}

#[test]
fn everything_that_lets_guests_observe_each_other_is_named_with_what_to_do() {
    let advice = host(&[
        ("sys/devices/system/cpu/smt/control", "on\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("sys/kernel/mm/ksm/run", "1\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"),
        ("proc/cmdline", "mitigations=off\n"),
        ("proc/meminfo", "HugePages_Total: 8\nHugePages_Free: 8\nHugepagesize: 2048 kB\n"),
    ]);
    assert_eq!(open(&advice), ["smt", "ksm", "swap", "mitigations", "hugepages"]);
    let found = |topic: &str| &advice.iter().find(|advice| advice.topic == topic).expect("there").found;
    assert!(found("swap").contains("/dev/sda2"), "{}", found("swap"));
    assert!(found("hugepages").starts_with("16 MiB "), "{}", found("hugepages"));
}

#[test]
fn swap_in_compressed_memory_and_a_silent_kernel_are_fine() {
    let advice = host(&[("proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 5\n")]);
    assert_eq!(open(&advice), Vec::<&str>::new());
}
