//! Output of any size and any bytes: bounded text, exact totals, the whole of it in a file, flat memory.

use rekindle::agent::{Event, ExecuteRequest, Outcome, RestoreRequest, SandboxLimits, SpillPaths, Stdin};
use rekindle_protocol::limits::{DEFAULT_OUTPUT_LIMIT, MAX_KEPT_OUTPUTS};
use rekindle_protocol::output::Collector;

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, Setup, restore_request, shell};

const GIB: u64 = 1 << 30;
/// How much the agent may grow, whatever a program prints.
const GROWTH_KIB: u64 = 4 * 1024;

/// Runs a program that prints without end in sight, and returns how much the agent grew, in KiB.
async fn flood(agent: &Agent, request: ExecuteRequest) -> (rekindle::agent::Finished, u64) {
    // Once in small, so that everything that is loaded or allocated only once is there.
    agent.run(shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")).await;
    let before = agent.status_kib("VmRSS:");
    agent.reset_peak();
    let finished = agent.run(request).await;
    let peak = agent.status_kib("VmHWM:");
    println!("before {before} KiB, peak {peak} KiB");
    (finished, peak.saturating_sub(before))
}

#[tokio::test]
async fn a_gibibyte_of_lines_leaves_memory_flat_and_totals_exact() {
    let agent = agent!();
    let line = format!("echo FIRST; yes | head -c {}; echo LAST", GIB - 11);
    let (finished, growth) = flood(&agent, shell(&line)).await;
    assert_eq!(finished.outcome, Outcome::Exited(0));
    let stdout = finished.stdout;
    assert_eq!((stdout.total_bytes, stdout.total_chars), (GIB, GIB));
    assert_eq!(stdout.text.chars().count(), DEFAULT_OUTPUT_LIMIT);
    assert!(stdout.truncated);
    assert!(
        stdout.text.starts_with("FIRST\ny\ny\n") && stdout.text.ends_with("y\nyLAST\n"),
        "{:?}",
        stdout.text
    );
    assert!(growth <= GROWTH_KIB, "the agent grew by {growth} KiB");
}

#[tokio::test]
async fn a_gibibyte_without_a_newline_leaves_memory_flat_and_totals_exact() {
    let agent = agent!();
    let line = format!("printf FIRST; head -c {} /dev/zero | tr '\\0' x; printf LAST", GIB - 9);
    let (finished, growth) = flood(&agent, shell(&line)).await;
    assert_eq!(finished.outcome, Outcome::Exited(0));
    let stdout = finished.stdout;
    assert_eq!((stdout.total_bytes, stdout.total_chars), (GIB, GIB));
    assert_eq!(stdout.text.chars().count(), DEFAULT_OUTPUT_LIMIT);
    assert!(stdout.text.starts_with("FIRSTxxx") && stdout.text.ends_with("xxxLAST"));
    assert!(growth <= GROWTH_KIB, "the agent grew by {growth} KiB");
}

#[tokio::test]
async fn a_live_flood_that_its_caller_reads_slowly_leaves_memory_flat() {
    let agent = agent!();
    agent.run(shell("head -c 1000000 /dev/zero")).await;
    let before = agent.status_kib("VmRSS:");
    agent.reset_peak();
    let request = ExecuteRequest { stream: true, ..shell("head -c 50000000 /dev/zero") };
    let mut execution = agent.client.execute(request).await.expect("started");
    let mut received = 0;
    let total = loop {
        match execution.next().await.expect("no error").expect("not over") {
            rekindle::agent::Event::Output { data, .. } => {
                received += data.len() as u64;
                if received < 5_000_000 {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            }
            rekindle::agent::Event::Finished(finished) => break finished.stdout.total_bytes,
        }
    };
    assert_eq!((received, total), (50_000_000, 50_000_000));
    let growth = agent.status_kib("VmHWM:").saturating_sub(before);
    assert!(growth <= GROWTH_KIB, "the agent grew by {growth} KiB");
}

#[tokio::test]
async fn the_limit_counts_characters_and_exactly_that_many_are_not_cut() {
    let agent = agent!();
    let print = |n: usize| shell(&format!("yes | head -c {n} | tr -d '\\n' | sed 's/y/é/g'"));
    // Half of what `yes` prints is newlines.
    let exact = agent.run(print(2 * DEFAULT_OUTPUT_LIMIT)).await.stdout;
    assert!(!exact.truncated, "{} characters", exact.total_chars);
    assert_eq!(exact.text, "é".repeat(DEFAULT_OUTPUT_LIMIT));
    assert_eq!(exact.total_bytes, 2 * DEFAULT_OUTPUT_LIMIT as u64);
    assert_eq!(exact.spilled_path, None);
    let more = agent.run(print(2 * DEFAULT_OUTPUT_LIMIT + 2)).await.stdout;
    assert!(more.truncated);
    assert_eq!(more.text.chars().count(), DEFAULT_OUTPUT_LIMIT);
    assert_eq!(more.total_chars, DEFAULT_OUTPUT_LIMIT as u64 + 1);
}

#[tokio::test]
async fn the_caller_can_ask_for_more_or_less() {
    let agent = agent!();
    for limit in [100u32, 1234, 100_000] {
        let request = ExecuteRequest {
            output_limit: limit,
            ..shell("head -c 300000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero | tr '\\0' z >&2")
        };
        let finished = agent.run(request).await;
        for output in [finished.stdout, finished.stderr] {
            assert_eq!(output.text.chars().count(), limit as usize);
            assert_eq!(output.total_chars, 300_000);
        }
    }
}

#[tokio::test]
async fn what_was_cut_is_kept_exactly_and_can_be_downloaded() {
    let agent = agent!();
    // Every byte, so most of it is no text.
    let mut all: Vec<u8> = (0..=255).collect();
    all.rotate_left(7);
    let content = all.repeat(200);
    let octal: String = all.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let finished =
        agent.run(shell(&format!("for i in $(seq 200); do printf '{octal}'; done; echo small >&2"))).await;
    assert_eq!(finished.outcome, Outcome::Exited(0));
    let stdout = finished.stdout;
    let mut collector = Collector::new(DEFAULT_OUTPUT_LIMIT);
    collector.push(&content);
    let expected = collector.finish();
    assert_eq!(stdout.text, expected.text);
    assert_eq!((stdout.total_bytes, stdout.total_chars), (expected.total_bytes, expected.total_chars));
    assert_eq!(stdout.spilled_bytes, content.len() as u64);
    let mut kept = Vec::new();
    let at = stdout.spilled_path.expect("it is kept");
    agent.client.download(&at, 1 << 20, &mut kept, PATIENCE).await.expect("downloaded");
    assert!(kept == content, "{} bytes kept of {}", kept.len(), content.len());
    assert_eq!(finished.stderr.spilled_path, None, "what was not cut is not kept");
}

#[tokio::test]
async fn keeping_is_capped_and_says_so() {
    let limits = Some(SandboxLimits { spilled_output_bytes: 100_000, ..SandboxLimits::default() });
    let agent = agent!(Setup { restore: RestoreRequest { limits, ..restore_request() }, ..Setup::default() });
    let finished = agent.run(shell("head -c 1000000 /dev/zero | tr '\\0' x")).await;
    assert_eq!(finished.stdout.total_bytes, 1_000_000);
    assert_eq!(finished.stdout.spilled_bytes, 100_000);
    let at = finished.stdout.spilled_path.expect("it is kept");
    let info = agent.client.stat(&at, false, SOON).await.expect("it is there");
    assert_eq!(info.size, 100_000);
}

#[tokio::test]
async fn what_was_printed_can_be_read_while_the_program_runs() {
    let agent = agent!();
    // What the first stream has is little, and the second makes it old.
    let line = "head -c 20000 /dev/zero; read go; head -c 100000 /dev/zero >&2; read end";
    let request = ExecuteRequest { stream: true, stdin: Stdin::Live.into(), ..shell(line) };
    let mut execution = agent.client.execute(request).await.expect("started");
    let mut stdin = execution.take_stdin().expect("an input");
    let SpillPaths { stdout, stderr } = execution.started().spilled.clone();
    let (stdout, stderr) = (stdout.expect("a path"), stderr.expect("a path"));
    for (word, bytes) in [("go\n", 20_000), ("end\n", 100_000)] {
        let mut printed = 0;
        while printed < bytes {
            match execution.next().await.expect("no error") {
                Some(Event::Output { data, .. }) => printed += data.len(),
                other => panic!("{other:?}"),
            }
        }
        if word == "end\n" {
            let size = async |path| agent.client.stat(path, false, SOON).await.expect("it is there").size;
            assert_eq!(size(&stdout).await, 20_000, "the other stream came after it");
            assert!(size(&stderr).await >= 100_000 - 32 * 1024);
        }
        stdin.send(word.into()).await.expect("it reads");
    }
    let ended = execution.next().await.expect("no error");
    let Some(Event::Finished(finished)) = ended else { panic!("{ended:?}") };
    assert_eq!((finished.stdout.spilled_path, finished.stderr.spilled_path), (Some(stdout), Some(stderr)));
}

#[tokio::test]
async fn only_so_many_outputs_are_kept_and_the_oldest_go_first() {
    let agent = agent!();
    let mut kept = Vec::new();
    for _ in 0..MAX_KEPT_OUTPUTS + 3 {
        let finished = agent.run(shell("head -c 5000 /dev/zero")).await;
        kept.push(finished.stdout.spilled_path.expect("it is kept"));
        agent.run(shell("echo small")).await;
    }
    for (age, at) in kept.iter().rev().enumerate() {
        let there = agent.client.stat(at, false, SOON).await.is_ok();
        assert_eq!(there, age < MAX_KEPT_OUTPUTS, "{age} executions ago");
    }
}

#[tokio::test]
async fn a_full_disk_costs_the_kept_file_and_nothing_else() {
    let before = "mount -t tmpfs -o size=64k,mode=755 none \"$HOME/../state\"";
    let agent = agent!(Setup { unshare: vec!["--mount"], before, ..Setup::default() });
    let finished = agent.run(shell("head -c 3000000 /dev/zero | tr '\\0' x")).await;
    assert_eq!(finished.outcome, Outcome::Exited(0));
    assert_eq!(finished.stdout.total_bytes, 3_000_000);
    assert!(finished.stdout.spilled_bytes <= 64 * 1024);
    agent.answers().await;
}
