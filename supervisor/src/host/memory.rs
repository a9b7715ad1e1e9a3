//! How much memory this host has. Asked once, when a service decides what it may hand out.

use std::fs;

/// Memory of the host in MiB, or of the control group this process is held to where that is less.
#[must_use]
pub fn total_mib() -> Option<u64> {
    let host = parse(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(own_limit().map_or(host, |limit| host.min(limit)))
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// What a container or a service manager allows this process, on the unified hierarchy.
fn own_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = fs::read_to_string(format!("/sys/fs/cgroup/{own}/memory.max")).ok()?;
    Some(limit.trim().parse::<u64>().ok()? >> 20)
}

#[cfg(test)]
mod tests {
    //! The kernel's words.

    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(parse("MemTotal:       24689840 kB\nMemFree: 1 kB\n"), Some(24111));
        assert_eq!(parse("MemFree: 1 kB\n"), None);
        assert!(total_mib().is_some_and(|mib| mib > 0));
    }
}
