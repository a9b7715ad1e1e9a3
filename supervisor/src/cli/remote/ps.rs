//! `rekindle ps`: lists sandboxes.

use std::collections::HashMap;

use rekindle_api::client::Client;
use rekindle_api::v1::{ListRequest, Sandbox};

use super::table::{Side, Table};
use super::{escape, print, quantity, resolve, view};
use crate::cli::args::PsOptions;

/// Runs the command.
pub async fn ps(mut client: Client, options: PsOptions) -> anyhow::Result<u8> {
    let request = ListRequest {
        metadata: options.meta.into_iter().collect(),
        include_ended: options.all,
        ..ListRequest::default()
    };
    let sandboxes = resolve::list(&mut client, request).await?;
    if options.json {
        print::json(&sandboxes.iter().map(view::Sandbox::from).collect::<Vec<_>>())?;
    } else if options.quiet {
        print::text(&sandboxes.iter().map(|one| escape::text(&one.id) + "\n").collect::<String>())?;
    } else {
        print::text(&table(&sandboxes, quantity::now_millis()).text())?;
    }
    Ok(0)
}

fn table(sandboxes: &[Sandbox], now: u64) -> Table {
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
            quantity::millis(now.saturating_sub(sandbox.created_at_millis)),
            left(sandbox, now),
            quantity::micros(usage.cpu_micros),
            quantity::size_or_dash(usage.memory_bytes),
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
pub(super) fn left(sandbox: &Sandbox, now: u64) -> String {
    match sandbox.expires_at_millis {
        0 => "-".into(),
        at => quantity::millis(at.saturating_sub(now)),
    }
}

/// The caller's words in a fixed order.
pub(super) fn metadata(metadata: &HashMap<String, String>) -> String {
    let mut pairs: Vec<String> = metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::{End, EndReason, SandboxState, SandboxUsage};

    use super::*;

    #[test]
    fn sandboxes_are_one_line_each() {
        let running = Sandbox {
            id: "ab12".into(),
            template: "python-node".into(),
            state: SandboxState::Running.into(),
            created_at_millis: 1_000,
            expires_at_millis: 301_000,
            metadata: [("user".to_owned(), "a\nb".to_owned()), ("job".to_owned(), "7".to_owned())].into(),
            usage: Some(SandboxUsage {
                executions: 3,
                cpu_micros: 1_500,
                memory_bytes: 64 << 20,
                ..SandboxUsage::default()
            }),
            ..Sandbox::default()
        };
        let ended = Sandbox {
            id: "cd34".into(),
            template: "minimal".into(),
            state: SandboxState::Ended.into(),
            end: Some(End { reason: EndReason::Idle.into(), ..End::default() }),
            created_at_millis: 61_000,
            ..Sandbox::default()
        };
        assert_eq!(
            table(&[running, ended], 61_000).text(),
            "ID    TEMPLATE     STATE          AGE       LEFT     CPU    MEMORY  EXECS  METADATA\n\
             ab12  python-node  running       60 s  4 min 0 s  1.5 ms  64.0 MiB      3  job=7 user=a\\nb\n\
             cd34  minimal      ended (idle)   0 s          -    0 µs         -      0\n"
        );
    }
}
