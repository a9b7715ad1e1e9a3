//! Reading processor descriptions.

use super::{CpuIdentity, measure_tsc_khz};

const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
    model name\t: Some Processor\nstepping\t: 8\nflags\t\t: fpu sse2 avx\n\nprocessor\t: 1\nmodel\t\t: 1\n";

#[test]
fn an_identity_is_read_from_the_first_processor() {
    let cpu = CpuIdentity::parse(CPUINFO);
    assert_eq!((cpu.vendor.as_str(), cpu.name.as_str()), ("GenuineIntel", "Some Processor"));
    assert_eq!(cpu.signature, "6/143/8");
    assert_eq!(cpu.features.len(), 32);
}

#[test]
fn the_order_of_features_does_not_matter_but_the_set_does() {
    let cpu = CpuIdentity::parse(CPUINFO);
    assert_eq!(cpu, CpuIdentity::parse(&CPUINFO.replace("fpu sse2 avx", "avx fpu sse2")));
    assert_ne!(cpu, CpuIdentity::parse(&CPUINFO.replace("fpu sse2 avx", "fpu sse2")));
}

#[test]
fn the_counter_rate_is_stable() {
    let (Some(first), Some(second)) = (measure_tsc_khz(), measure_tsc_khz()) else {
        rekindle_test_support::skip!("no time-stamp counter");
    };
    assert!(first.abs_diff(second) < first / 500, "{first} against {second}");
}
