//! `rekindle ps`: lists sandboxes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use rekindle_api::client::Client;
use rekindle_api::v1::{ListSandboxesRequest, Sandbox};

use super::table::{Side, Table};
use super::{escape, print, quantity, resolve, view};
use crate::cli::args::PsOptions;

/// Runs the command.
pub async fn ps(mut client: Client, options: PsOptions) -> anyhow::Result<u8> {
    let request = ListSandboxesRequest {
        metadata: options.meta.into_iter().collect(),
        include_ended: options.all,
        ..ListSandboxesRequest::default()
    };
    let sandboxes = resolve::list(&mut client, request).await?;
    if options.json {
        print::json(&sandboxes.iter().map(view::Sandbox::from).collect::<Vec<_>>())?;
    } else if options.quiet {
        print::text(&sandboxes.iter().map(|one| escape::text(&one.id) + "\n").collect::<String>())?;
    } else {
        print::text(&table(&sandboxes, SystemTime::now()).text())?;
    }
    Ok(0)
}

fn table(sandboxes: &[Sandbox], now: SystemTime) -> Table {
    let mut table = Table::new(&[
        ("ID", Side::Left),
        ("TEMPLATE", Side::Left),
        ("STATE", Side::Left),
        ("AGE", Side::Right),
        ("LEFT", Side::Right),
        ("CPU", Side::Right),
        ("MEMORY", Side::Right),
        ("EXECS", Side::Right),
        ("METADATA", Side::Left),
    ]);
    for sandbox in sandboxes {
        let usage = sandbox.usage.unwrap_or_default();
        table.row([
            sandbox.id.clone(),
            sandbox.template.clone(),
            state(sandbox),
            quantity::span(quantity::between(sandbox.created_at, now)),
            left(sandbox, now),
            quantity::short(usage.cpu_time),
            quantity::known_size(usage.memory_bytes),
            usage.executions.to_string(),
            metadata(&sandbox.metadata),
        ]);
    }
    table
}

/// The state, and of one that has ended why.
pub(super) fn state(sandbox: &Sandbox) -> String {
    match &sandbox.end {
        Some(end) => format!("{} ({})", view::state(sandbox.state), view::end_reason(end.reason)),
        None => view::state(sandbox.state),
    }
}

/// How long it still has.
pub(super) fn left(sandbox: &Sandbox, now: SystemTime) -> String {
    match sandbox.expires_at {
        None => "-".into(),
        at => quantity::span(quantity::between(at, now)),
    }
}

/// The caller's words.
pub(super) fn metadata(metadata: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::{SandboxEnd, SandboxEndReason, SandboxState, SandboxUsage};
    use rekindle_api::{Duration, Timestamp};

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    #[test]
    fn sandboxes_are_one_line_each() {
        let running = Sandbox {
            id: "ab12".into(),
            template: "python-node".into(),
            state: SandboxState::Running.into(),
            created_at: at(1),
            expires_at: at(301),
            metadata: [("user".to_owned(), "a\nb".to_owned()), ("job".to_owned(), "7".to_owned())].into(),
            usage: Some(SandboxUsage {
                executions: 3,
                cpu_time: Some(Duration { seconds: 0, nanos: 1_500_000 }),
                memory_bytes: Some(64 << 20),
                ..SandboxUsage::default()
            }),
            ..Sandbox::default()
        };
        let ended = Sandbox {
            id: "cd34".into(),
            template: "minimal".into(),
            state: SandboxState::Ended.into(),
            end: Some(SandboxEnd { reason: SandboxEndReason::Idle.into(), ..SandboxEnd::default() }),
            created_at: at(61),
            ..Sandbox::default()
        };
        assert_eq!(
            table(&[running, ended], SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(61)).text(),
            "ID    TEMPLATE     STATE          AGE       LEFT     CPU    MEMORY  EXECS  METADATA\n\
             ab12  python-node  running       60 s  4 min 0 s  1.5 ms  64.0 MiB      3  job=7 user=a\\nb\n\
             cd34  minimal      ended (idle)   0 s          -       -         -      0\n"
        );
    }
}
