//! The verdict on KVM from made-up facts.

use std::path::Path;

use super::KvmStatus;

#[test]
fn a_device_without_processor_extensions_is_not_usable() {
    let device = tempfile::NamedTempFile::new().expect("a file");
    let verdict = |cpuinfo, x86| KvmStatus::from_facts(device.path(), cpuinfo, x86);
    assert_eq!(verdict("flags\t\t: fpu sse2\n", true), KvmStatus::NoExtensions);
    assert_eq!(verdict("flags\t\t: fpu vmxfoo\n", true), KvmStatus::NoExtensions);
    assert_eq!(verdict("flags\t\t: fpu vmx\n", true), KvmStatus::Usable);
    assert_eq!(verdict("flags\t\t: svm fpu\n", true), KvmStatus::Usable);
    assert_eq!(verdict("", false), KvmStatus::Usable);
}

#[test]
fn a_missing_device_is_named_as_such() {
    let verdict = KvmStatus::from_facts(Path::new("/nonexistent/kvm"), "flags : vmx", true);
    assert_eq!(verdict, KvmStatus::NoDevice);
    assert!(verdict.hint().is_some());
}
