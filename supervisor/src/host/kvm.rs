//! Whether hardware virtualisation can really be used.
//!
//! An openable `/dev/kvm` is not enough: some hosts offer a paravirtual KVM that passes simple probes
//! and cannot boot a stock kernel. On x86 the processor must show `vmx` or `svm` as well. Called by
//! engine detection and by `doctor`; it starts no guest.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// What a look at the host found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvmStatus {
    /// The device opens and the processor has the extensions.
    Usable,
    /// There is no device.
    NoDevice,
    /// The device is there and cannot be opened.
    NotOpenable {
        /// What the kernel said.
        reason: String,
    },
    /// The device opens, but the processor shows no virtualisation extensions.
    NoExtensions,
}

impl KvmStatus {
    /// Looks at this host.
    #[must_use]
    pub fn probe() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self::from_facts(Path::new("/dev/kvm"), &cpuinfo, cfg!(target_arch = "x86_64"))
    }

    fn from_facts(device: &Path, cpuinfo: &str, x86: bool) -> Self {
        if !device.exists() {
            return Self::NoDevice;
        }
        if let Err(error) = OpenOptions::new().read(true).write(true).open(device) {
            return Self::NotOpenable { reason: error.to_string() };
        }
        let extended = cpuinfo
            .lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| line.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm"));
        if x86 && !extended { Self::NoExtensions } else { Self::Usable }
    }

    /// Whether guests can run on it.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        *self == Self::Usable
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Usable => None,
            Self::NoDevice => {
                Some("load the kvm_intel or kvm_amd module, or enable virtualisation in the firmware")
            }
            Self::NotOpenable { .. } => Some("add your user to the group that owns /dev/kvm"),
            Self::NoExtensions => Some("use a bare-metal host or one with nested virtualisation"),
        }
    }
}

impl fmt::Display for KvmStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable => f.write_str("KVM is usable"),
            Self::NoDevice => f.write_str("there is no /dev/kvm"),
            Self::NotOpenable { reason } => write!(f, "/dev/kvm cannot be opened: {reason}"),
            Self::NoExtensions => {
                f.write_str("/dev/kvm is there but the processor shows neither vmx nor svm")
            }
        }
    }
}

#[cfg(test)]
mod tests;
