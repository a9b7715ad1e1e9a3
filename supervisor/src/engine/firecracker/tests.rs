//! What needs no monitor.

use super::version::{FirecrackerVersion, Verdict};

#[test]
fn only_patches_of_the_tested_minor_version_are_accepted() {
    let verdict = |line: &str| FirecrackerVersion::parse(line).map(FirecrackerVersion::verdict);
    assert_eq!(verdict("Firecracker v1.16.1"), Some(Verdict::Accepted));
    assert_eq!(verdict("Firecracker v1.16.9"), Some(Verdict::Accepted));
    assert_eq!(verdict("Firecracker v1.16.0"), Some(Verdict::TooOld));
    assert_eq!(verdict("Firecracker v1.9.1"), Some(Verdict::TooOld));
    assert_eq!(verdict("Firecracker v1.17.0-dev"), Some(Verdict::Untested));
    assert_eq!(verdict("Firecracker v2.0.0"), Some(Verdict::Untested));
    assert_eq!(verdict("QEMU emulator version 7.2"), None);
}
