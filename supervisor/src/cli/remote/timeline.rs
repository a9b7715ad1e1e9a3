//! `rekindle timeline`: every call to a sandbox with its outcome and cost; with `--trace` every call of a trace, in
//! whichever sandbox, under its step with what the step adds up to.

use rekindle::telemetry::TraceId;
use rekindle_api::client::Client;
use rekindle_api::v1::{SandboxTimelineRequest, SandboxTimelineResponse, TimelineEntry};

use super::table::{Side, Table};
use super::{print, quantity, refusal, resolve, view};
use crate::cli::args::TimelineOptions;

/// What is printed for calls that are of no step.
const NO_STEP: &str = "(no step)";

/// Runs the command.
pub async fn timeline(
    mut client: Client,
    trace: Option<TraceId>,
    options: TimelineOptions,
) -> anyhow::Result<u8> {
    let sandbox = match &options.sandbox {
        Some(sandbox) => resolve::resolve(&mut client, sandbox).await?,
        None => String::new(),
    };
    let request =
        SandboxTimelineRequest { sandbox, trace: trace.map(|trace| trace.to_string()).unwrap_or_default() };
    let timeline = client.sandboxes.timeline(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Timeline::from(timeline))?;
        return Ok(0);
    }
    let table = match trace {
        Some(_) => tree(&timeline),
        None => table(&timeline.entries),
    };
    print::text(&table.text())?;
    if timeline.dropped > 0 {
        eprintln!("rekindle: {} earlier calls are no longer kept", timeline.dropped);
    }
    Ok(0)
}

fn table(entries: &[TimelineEntry]) -> Table {
    let mut table = Table::new(&[
        ("AT (UTC)", Side::Left),
        ("CALL", Side::Left),
        ("OUTCOME", Side::Left),
        ("TOOK", Side::Right),
        ("CPU", Side::Right),
        ("MEMORY", Side::Right),
        ("IN", Side::Right),
        ("OUT", Side::Right),
        ("ABOUT", Side::Left),
    ]);
    for entry in entries {
        table.row([
            quantity::moment(entry.started_at),
            entry.call.clone(),
            view::outcome(entry.outcome.as_ref()),
            quantity::short(entry.duration),
            quantity::short(entry.cpu_time),
            quantity::known_size(entry.memory_peak_bytes),
            quantity::size_or_dash(entry.bytes_in),
            quantity::size_or_dash(entry.bytes_out),
            entry.subject.clone(),
        ]);
    }
    table
}

/// Every step with its sums, and its calls below it.
fn tree(timeline: &SandboxTimelineResponse) -> Table {
    let mut table = Table::new(&[
        ("STEP", Side::Left),
        ("AT (UTC)", Side::Left),
        ("SANDBOX", Side::Left),
        ("OUTCOME", Side::Left),
        ("TOOK", Side::Right),
        ("CPU", Side::Right),
        ("IN", Side::Right),
        ("OUT", Side::Right),
        ("NETWORK", Side::Right),
        ("COST", Side::Right),
        ("ABOUT", Side::Left),
    ]);
    let cost = |cost: u64| if cost == 0 { "-".into() } else { cost.to_string() };
    for step in &timeline.steps {
        let calls: Vec<_> = timeline.entries.iter().filter(|entry| entry.step == step.step).collect();
        table.row([
            if step.step.is_empty() { NO_STEP.into() } else { step.step.clone() },
            calls.first().map_or_else(|| "-".into(), |first| quantity::moment(first.started_at)),
            String::new(),
            format!("{} calls, {} executions, {} failed", step.calls, step.executions, step.failures),
            quantity::short(step.duration),
            quantity::short(step.cpu_time),
            quantity::size_or_dash(step.bytes_in),
            quantity::size_or_dash(step.bytes_out),
            quantity::size_or_dash(step.network_up.saturating_add(step.network_down)),
            cost(step.gateway_cost),
            String::new(),
        ]);
        for entry in calls {
            table.row([
                format!("  {}", entry.call),
                quantity::moment(entry.started_at),
                entry.sandbox.clone(),
                view::outcome(entry.outcome.as_ref()),
                quantity::short(entry.duration),
                quantity::short(entry.cpu_time),
                quantity::size_or_dash(entry.bytes_in),
                quantity::size_or_dash(entry.bytes_out),
                quantity::size_or_dash(entry.network_up.saturating_add(entry.network_down)),
                cost(entry.gateway_cost),
                entry.subject.clone(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::execution_outcome::Outcome;
    use rekindle_api::v1::timeline_outcome::Outcome as Came;
    use rekindle_api::v1::{ExecutionOutcome, TimelineOutcome, TimelineStep};
    use rekindle_api::{Duration, Timestamp};

    use super::*;

    #[test]
    fn calls_are_one_line_each() {
        let exited = ExecutionOutcome { outcome: Some(Outcome::ExitCode(1)) };
        let entry = TimelineEntry {
            call: "execute".into(),
            subject: "py\u{1b}thon3".into(),
            started_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            duration: Some(Duration { seconds: 0, nanos: 12_000_000 }),
            outcome: Some(TimelineOutcome { outcome: Some(Came::Execution(exited)) }),
            bytes_out: 2_048,
            ..TimelineEntry::default()
        };
        assert_eq!(
            table(&[entry]).text(),
            "AT (UTC)             CALL     OUTCOME      TOOK  CPU  MEMORY  IN      OUT  ABOUT\n\
             2023-11-14 22:13:20  execute  exited:1  12.0 ms    -       -   -  2.0 KiB  py\\u{1b}thon3\n"
        );
    }
    #[test]
    fn the_calls_of_a_trace_are_below_their_steps() {
        let entry = |step: &str, call: &str, sandbox: &str| TimelineEntry {
            call: call.into(),
            sandbox: sandbox.into(),
            step: step.into(),
            started_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            duration: Some(Duration { seconds: 0, nanos: 12_000_000 }),
            network_up: 1024,
            network_down: 1024,
            ..TimelineEntry::default()
        };
        let sums = |step: &str, calls| TimelineStep {
            step: step.into(),
            calls,
            executions: 1,
            network_up: 2048,
            gateway_cost: 7,
            ..TimelineStep::default()
        };
        let timeline = SandboxTimelineResponse {
            entries: vec![
                entry("plan", "execute", "a"),
                entry("", "upload", "a"),
                entry("plan", "execute", "b"),
            ],
            dropped: 0,
            steps: vec![sums("plan", 2), sums("", 1)],
        };
        let text = tree(&timeline).text();
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1][..3], ["plan", "2023-11-14", "22:13:20"]);
        assert_eq!(
            words[1][3..],
            "2 calls, 1 executions, 0 failed - - - - 2.0 KiB 7".split(' ').collect::<Vec<_>>()
        );
        assert_eq!((words[2][0], words[2][3], words[3][3]), ("execute", "a", "b"));
        assert_eq!((words[4][..2].join(" "), words[5][0]), (NO_STEP.to_owned(), "upload"));
        assert!(text.contains("\n  execute"), "{text}");
    }
}
