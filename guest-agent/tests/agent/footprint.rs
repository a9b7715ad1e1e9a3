//! What the agent costs every guest. Only the binary that is shipped can tell, so these run where
//! `REKINDLE_AGENT` names it.

use std::time::{Duration, Instant};

use rekindle_test_support::skip;

use crate::agent;
use crate::harness::{binary, shell};

const MAX_BINARY: u64 = 4 << 20;
const MAX_IDLE_KIB: u64 = 6 << 10;

fn shipped() -> bool {
    std::env::var_os("REKINDLE_AGENT").is_some()
}

#[tokio::test]
async fn the_binary_is_small() {
    if !shipped() {
        skip!("REKINDLE_AGENT does not name the binary that is shipped");
    }
    let size = std::fs::metadata(binary()).expect("the binary").len();
    println!("{size} bytes");
    assert!(size <= MAX_BINARY, "{size} bytes");
}

#[tokio::test]
async fn an_idle_agent_takes_little_memory_before_and_after_work() {
    if !shipped() {
        skip!("REKINDLE_AGENT does not name the binary that is shipped");
    }
    let agent = agent!();
    let fresh = agent.status_kib("VmRSS:");
    for _ in 0..20 {
        agent.run(shell("head -c 1000000 /dev/zero")).await;
    }
    // Threads that wait for more file work go away after a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let used = agent.status_kib("VmRSS:");
    println!("{fresh} KiB fresh, {used} KiB after work");
    assert!(fresh <= MAX_IDLE_KIB && used <= MAX_IDLE_KIB, "{fresh} KiB fresh, {used} KiB after work");
}

#[tokio::test]
async fn an_idle_agent_takes_no_processor_time() {
    let agent = agent!();
    agent.run(shell("true")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", agent.pid())).expect("a running agent");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
    };
    let (before, began) = (ticks(), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let used = ticks() - before;
    println!("{used} ticks in {:?}", began.elapsed());
    assert!(used <= 1, "{used} ticks while idle");
}
