//! `rekindle timeline`: every call to a sandbox with its outcome and cost.

use rekindle_api::client::Client;
use rekindle_api::v1::{SandboxTimelineRequest, TimelineEntry};

use super::table::{Side, Table};
use super::{print, quantity, refusal, resolve, view};
use crate::cli::args::OneOptions;

/// Runs the command.
pub async fn timeline(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = SandboxTimelineRequest { sandbox };
    let timeline = client.sandboxes.timeline(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Timeline::from(timeline))?;
        return Ok(0);
    }
    print::text(&table(&timeline.entries).text())?;
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

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::execution_outcome::Outcome;
    use rekindle_api::v1::timeline_outcome::Outcome as Came;
    use rekindle_api::v1::{ExecutionOutcome, TimelineOutcome};
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
}
