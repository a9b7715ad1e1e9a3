//! What the host's processor is: a snapshot taken on one is refused on another.
//!
//! Called when an engine is set up. The counter's rate is measured, because the guest needs it on its
//! command line and no file of the kernel states it.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The processor as far as guest-visible behaviour depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuIdentity {
    /// Vendor, for example `GenuineIntel`.
    pub vendor: String,
    /// Marketing name.
    pub name: String,
    /// Family, model and stepping, for example `6/143/8`.
    pub signature: String,
    /// First half of the SHA-256 of the sorted feature flags, in hexadecimal.
    pub features: String,
}

impl CpuIdentity {
    /// Reads this host's.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    fn parse(cpuinfo: &str) -> Self {
        let first = cpuinfo.split("\n\n").next().unwrap_or_default();
        let field = |name: &str| {
            first
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map_or("", |(_, value)| value.trim())
        };
        let mut flags: Vec<&str> = field("flags").split_ascii_whitespace().collect();
        flags.extend(field("Features").split_ascii_whitespace());
        flags.sort_unstable();
        let digest = Sha256::digest(flags.join(" ").as_bytes());
        Self {
            vendor: field("vendor_id").to_owned(),
            name: field("model name").to_owned(),
            signature: format!("{}/{}/{}", field("cpu family"), field("model"), field("stepping")),
            features: digest[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// The rate of the processor's time-stamp counter in kHz, measured over some 30 ms.
///
/// Blocks the calling thread for that time. `None` on processors without one.
#[must_use]
pub fn measure_tsc_khz() -> Option<u32> {
    let (ticks_before, before) = sample()?;
    std::thread::sleep(Duration::from_millis(30));
    let (ticks_after, after) = sample()?;
    let nanos = after.duration_since(before).as_nanos();
    let ticks = u128::from(ticks_after.checked_sub(ticks_before)?);
    u32::try_from(ticks.checked_mul(1_000_000)?.checked_div(nanos)?).ok().filter(|khz| *khz > 100_000)
}

/// Counter and clock at the same moment: of several tries the one least disturbed.
#[cfg(target_arch = "x86_64")]
fn sample() -> Option<(u64, Instant)> {
    (0..16)
        .map(|_| {
            let start = ticks();
            let now = Instant::now();
            let end = ticks();
            (end.saturating_sub(start), start + end.saturating_sub(start) / 2, now)
        })
        .min_by_key(|(spread, ..)| *spread)
        .map(|(_, middle, now)| (middle, now))
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "the intrinsic is safe to call in newer releases of the language")]
fn ticks() -> u64 {
    // SAFETY: reading the counter has no preconditions on processors that run 64-bit code.
    // JUSTIFICATION: no file of the kernel states the counter's rate.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn sample() -> Option<(u64, Instant)> {
    None
}

#[cfg(test)]
mod tests;
