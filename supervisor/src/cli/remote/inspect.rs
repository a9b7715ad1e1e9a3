//! `rekindle inspect`: everything about one sandbox.

use std::time::SystemTime;

use rekindle_api::client::Client;
use rekindle_api::v1::{GetSandboxRequest, Sandbox};

use super::table::{Side, Table};
use super::{print, ps, quantity, refusal, resolve, view};
use crate::cli::args::OneOptions;

/// Runs the command.
pub async fn inspect(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let sandbox =
        client.sandboxes.get(GetSandboxRequest { sandbox }).await.map_err(refusal::refused)?.into_inner();
    show(&sandbox, options.json)?;
    Ok(0)
}

/// Prints a sandbox whole.
pub(super) fn show(sandbox: &Sandbox, json: bool) -> anyhow::Result<()> {
    if json {
        return print::json(&view::Sandbox::from(sandbox));
    }
    print::text(&text(sandbox, SystemTime::now()))
}

fn text(sandbox: &Sandbox, now: SystemTime) -> String {
    let mut facts = Table::facts();
    facts.fact("id", &sandbox.id);
    facts.fact("template", &sandbox.template);
    facts.fact("tenant", &sandbox.tenant);
    facts.fact("state", ps::state(sandbox));
    if let Some(end) = &sandbox.end {
        facts.fact("ended", format!("{} UTC: {}", quantity::moment(end.ended_at), end.message));
    }
    facts.fact("created", format!("{} UTC", quantity::moment(sandbox.created_at)));
    facts.fact("time left", ps::left(sandbox, now));
    facts.fact(
        "idle timeout",
        sandbox.idle_timeout.map_or_else(|| "none".into(), |time| quantity::long(Some(time))),
    );
    facts.fact("on timeout", view::on_timeout(sandbox.on_timeout).replace('_', " "));
    facts.fact("network", &sandbox.network);
    if !sandbox.gateway.is_empty() {
        facts.fact("gateway", sandbox.gateway.join(", "));
    }
    if let Some(turns) = &sandbox.turns {
        facts.fact("turns left", format!("{} of {}", turns.left, turns.max));
    }
    if let Some(result) = &sandbox.result {
        let there = match result.exists {
            Some(true) => "there",
            Some(false) => "not there",
            None => "not known",
        };
        facts.fact("result", format!("{}: {there}", result.path));
    }
    facts.fact("metadata", ps::metadata(&sandbox.metadata));
    let limits = sandbox.limits.unwrap_or_default();
    facts.fact("processors", or(limits.milli_cpus.into(), "not limited", quantity::cpus));
    facts.fact("memory limit", or(limits.memory_bytes, "the machine's", quantity::size));
    facts.fact("process limit", or(limits.pids.into(), "the guest's", |pids| pids.to_string()));
    let usage = sandbox.usage.unwrap_or_default();
    facts.fact("running for", quantity::long(usage.running_time));
    facts.fact("executions", usage.executions.to_string());
    facts.fact("processor time", quantity::short(usage.cpu_time));
    let (memory, peak) = (usage.memory_bytes, usage.memory_peak_bytes);
    facts.fact("memory", format!("{}, at most {}", quantity::known_size(memory), quantity::known_size(peak)));
    facts.fact(
        "bytes in, out",
        format!("{}, {}", quantity::size(usage.bytes_in), quantity::size(usage.bytes_out)),
    );
    if !sandbox.gateway.is_empty() {
        let of = sandbox.gateway_budget.map(|most| format!(" of {most}")).unwrap_or_default();
        let (requests, cost) = (usage.gateway_requests, usage.gateway_cost);
        facts.fact("gateway requests, cost", format!("{requests}, {cost}{of}"));
    }
    if usage.connections > 0 {
        facts.fact("connections", format!("{}, {} denied", usage.connections, usage.connections_denied));
        facts.fact("requests over http", usage.network_requests.to_string());
        facts.fact(
            "network up, down",
            format!(
                "{}, {}",
                quantity::size(usage.network_bytes_up),
                quantity::size(usage.network_bytes_down)
            ),
        );
    }
    let mut text = facts.text();
    if let Some(start) = &sandbox.start {
        text.push_str(&format!(
            "\nstart: {} in {}, {} of it waiting for room\n",
            view::start(start.kind),
            quantity::short(start.total),
            quantity::short(start.queued)
        ));
        let mut stages = Table::new(&[("STAGE", Side::Left), ("TOOK", Side::Right)]);
        for stage in &start.stages {
            stages.row([stage.name.clone(), quantity::short(stage.duration)]);
        }
        if !start.stages.is_empty() {
            text.push_str(&stages.text());
        }
    }
    text
}

/// The number as it reads, or a word for none.
fn or(number: u64, none: &str, shown: impl Fn(u64) -> String) -> String {
    if number == 0 { none.to_owned() } else { shown(number) }
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use std::time::Duration;

    use rekindle_api::time::duration;
    use rekindle_api::v1::{
        SandboxEnd, SandboxEndReason, SandboxStart, SandboxStartKind, SandboxStartStage, SandboxState,
    };

    use super::*;

    #[test]
    fn the_end_and_the_start_are_told() {
        let micros = |micros: u64| Some(duration(Duration::from_micros(micros)));
        let sandbox = Sandbox {
            id: "ab12".into(),
            state: SandboxState::Ended.into(),
            end: Some(SandboxEnd {
                reason: SandboxEndReason::VmLost.into(),
                message: "it \u{1b}crashed".into(),
                ended_at: Some(rekindle_api::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            }),
            start: Some(SandboxStart {
                kind: SandboxStartKind::Parked.into(),
                queued: micros(10),
                stages: vec![SandboxStartStage { name: "claim".into(), duration: micros(900) }],
                total: micros(1_200),
            }),
            ..Sandbox::default()
        };
        let text = text(&sandbox, SystemTime::UNIX_EPOCH);
        assert!(text.contains("state:           ended (vm_lost)\n"), "{text}");
        assert!(text.contains("ended:           2023-11-14 22:13:20 UTC: it \\u{1b}crashed\n"), "{text}");
        assert!(text.contains("idle timeout:    none\n"), "{text}");
        assert!(text.ends_with(
            "\nstart: parked in 1.2 ms, 10 µs of it waiting for room\nSTAGE    TOOK\nclaim  900 µs\n"
        ));
    }
}
