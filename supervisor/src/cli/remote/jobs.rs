//! `rekindle jobs`: lists the detached programs of a sandbox.

use rekindle_api::client::Client;
use rekindle_api::v1::{DetachedExecution, ListExecutionsRequest};

use super::table::{Side, Table};
use super::{print, quantity, refusal, resolve, view};
use crate::cli::args::OneOptions;

/// Runs the command.
pub async fn jobs(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let jobs = list(&mut client, sandbox).await?;
    if options.json {
        print::json(&jobs.into_iter().map(view::Job::from).collect::<Vec<_>>())?;
    } else {
        print::text(&table(&jobs).text())?;
    }
    Ok(0)
}

/// The detached programs of a sandbox.
pub async fn list(client: &mut Client, sandbox: String) -> anyhow::Result<Vec<DetachedExecution>> {
    let listed = client.executions.list(ListExecutionsRequest { sandbox }).await;
    Ok(listed.map_err(refusal::refused)?.into_inner().executions)
}

fn table(jobs: &[DetachedExecution]) -> Table {
    let mut table = Table::new(&[
        ("EXECUTION", Side::Left),
        ("STATE", Side::Left),
        ("STARTED (UTC)", Side::Left),
        ("TOOK", Side::Right),
        ("PRINTED", Side::Right),
        ("ABOUT", Side::Left),
    ]);
    for job in jobs {
        table.row([
            job.execution.clone(),
            view::job_state(job.state.as_ref()),
            quantity::moment(job.started_at),
            quantity::short(job.duration),
            quantity::size_or_dash(job.stdout_bytes.saturating_add(job.stderr_bytes)),
            job.subject.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::ExecutionRunning;
    use rekindle_api::v1::detached_execution::State;
    use rekindle_api::{Duration, Timestamp};

    use super::*;

    #[test]
    fn programs_are_one_line_each() {
        let job = DetachedExecution {
            execution: "ex-1".into(),
            subject: "py\u{1b}thon3".into(),
            started_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            duration: Some(Duration { seconds: 90, nanos: 0 }),
            state: Some(State::Running(ExecutionRunning {})),
            stdout_bytes: 1_024,
            stderr_bytes: 1_024,
            ..DetachedExecution::default()
        };
        assert_eq!(
            table(&[job]).text(),
            "EXECUTION  STATE    STARTED (UTC)          TOOK  PRINTED  ABOUT\n\
             ex-1       running  2023-11-14 22:13:20  90.0 s  2.0 KiB  py\\u{1b}thon3\n"
        );
    }
}
