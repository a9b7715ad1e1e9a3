//! `rekindle status`: how full the host is. `top` shows the same above its sandboxes.

use std::time::SystemTime;

use rekindle_api::client::Client;
use rekindle_api::v1::{HostStatusRequest, HostStatusResponse, PoolLevel};

use super::table::{Side, Table};
use super::{print, quantity, refusal, view};
use crate::cli::args::JsonOptions;

/// Runs the command.
pub async fn status(mut client: Client, options: &JsonOptions) -> anyhow::Result<u8> {
    let status = client.host.status(HostStatusRequest {}).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Status::from(status))?;
    } else {
        let mut text = facts(&status, SystemTime::now()).text();
        if !status.pools.is_empty() {
            text.push('\n');
            text.push_str(&pools(&status.pools).text());
        }
        print::text(&text)?;
    }
    Ok(0)
}

/// The host itself.
fn facts(status: &HostStatusResponse, now: SystemTime) -> Table {
    let mut facts = Table::facts();
    facts.fact("version", &status.version);
    facts.fact("engine", &status.engine);
    facts.fact("running for", quantity::span(quantity::between(status.started_at, now)));
    facts.fact("sandboxes", status.sandboxes.to_string());
    facts.fact("memory promised", memory(status));
    facts.fact("disk promised", disk(status));
    facts.fact("processors promised", processors(status));
    facts.fact("waiting for room", status.queued.to_string());
    if !status.unenforced_limits.is_empty() {
        facts.fact("not enforced here", status.unenforced_limits.join(", "));
    }
    if status.disk_low {
        let free = quantity::size(status.disk_free_bytes);
        facts.fact("disk nearly full", format!("{free} free; new sandboxes and uploads are refused"));
    }
    if status.draining {
        facts.fact("shutting down", "yes");
    }
    facts
}

/// How much memory is promised.
pub(super) fn memory(status: &HostStatusResponse) -> String {
    let (used, budget) = (status.memory_used_bytes, status.memory_budget_bytes);
    format!("{} of {}{}", quantity::size(used), quantity::size(budget), share(used, budget))
}

/// How much disk is promised.
fn disk(status: &HostStatusResponse) -> String {
    match (status.disk_used_bytes, status.disk_budget_bytes) {
        (used, None) => quantity::size(used),
        (used, Some(budget)) => {
            format!("{} of {}{}", quantity::size(used), quantity::size(budget), share(used, budget))
        }
    }
}

/// How many processors are promised.
pub(super) fn processors(status: &HostStatusResponse) -> String {
    let (used, budget) = (status.milli_cpus_used, status.milli_cpus_budget);
    format!("{} of {}{}", quantity::cpus(used), quantity::cpus(budget), share(used, budget))
}

fn share(used: u64, budget: u64) -> String {
    if budget == 0 { String::new() } else { format!(" ({:.0} %)", used as f64 / budget as f64 * 100.0) }
}

/// The pool, template by template.
pub(super) fn pools(pools: &[PoolLevel]) -> Table {
    let mut table = Table::new(&[
        ("POOL", Side::Left),
        ("PARKED", Side::Right),
        ("PRESPAWNED", Side::Right),
        ("FILLING", Side::Right),
        ("FROM PARKED", Side::Right),
        ("FROM PRESPAWNED", Side::Right),
        ("RESTORED", Side::Right),
    ]);
    for pool in pools {
        table.row([
            pool.template.clone(),
            pool.parked.to_string(),
            pool.prespawned.to_string(),
            pool.filling.to_string(),
            pool.claims_parked.to_string(),
            pool.claims_prespawned.to_string(),
            pool.claims_restored.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use super::*;

    #[test]
    fn the_budget_is_shown_with_its_share() {
        let status = HostStatusResponse {
            memory_used_bytes: 1 << 30,
            memory_budget_bytes: 4 << 30,
            disk_used_bytes: 1 << 30,
            disk_budget_bytes: Some(2 << 30),
            milli_cpus_used: 500,
            ..HostStatusResponse::default()
        };
        assert_eq!(memory(&status), "1.0 GiB of 4.0 GiB (25 %)");
        assert_eq!(disk(&status), "1.0 GiB of 2.0 GiB (50 %)");
        assert_eq!(disk(&HostStatusResponse { disk_budget_bytes: None, ..status.clone() }), "1.0 GiB");
        assert_eq!(processors(&status), "0.5 of 0", "a budget of nothing has no share");
    }

    #[test]
    fn what_is_unusual_is_said_and_what_is_not_is_not() {
        let mut status =
            HostStatusResponse { draining: true, disk_low: true, ..HostStatusResponse::default() };
        status.unenforced_limits = vec!["memory".into(), "pids".into()];
        let text = facts(&status, SystemTime::UNIX_EPOCH).text();
        assert!(text.contains("not enforced here:    memory, pids\n"), "{text}");
        assert!(text.contains("shutting down:        yes\n"), "{text}");
        assert!(text.contains("disk nearly full:"), "{text}");
        assert!(
            !facts(&HostStatusResponse::default(), SystemTime::UNIX_EPOCH).text().contains("shutting down")
        );
    }
}
