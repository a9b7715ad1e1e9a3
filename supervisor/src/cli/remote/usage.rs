//! `rekindle usage`: what tenants have used.

use rekindle_api::client::Client;
use rekindle_api::v1::{HostUsageRequest, TenantUsage};

use super::table::{Side, Table};
use super::{print, quantity, refusal, view};
use crate::cli::args::UsageOptions;

/// Runs the command.
pub async fn usage(mut client: Client, options: UsageOptions) -> anyhow::Result<u8> {
    let request = HostUsageRequest { tenant: options.tenant };
    let tenants = client.host.usage(request).await.map_err(refusal::refused)?.into_inner().tenants;
    if options.json {
        print::json(&tenants.into_iter().map(view::TenantUsage::from).collect::<Vec<_>>())?;
    } else {
        print::text(&table(&tenants).text())?;
    }
    Ok(0)
}

fn table(tenants: &[TenantUsage]) -> Table {
    let mut table = Table::new(&[
        ("TENANT", Side::Left),
        ("RUNNING", Side::Right),
        ("ENDED", Side::Right),
        ("EXECS", Side::Right),
        ("RAN FOR", Side::Right),
        ("CPU", Side::Right),
        ("GIB-HOURS", Side::Right),
        ("IN", Side::Right),
        ("OUT", Side::Right),
        ("GATEWAY", Side::Right),
        ("TODAY", Side::Right),
    ]);
    for tenant in tenants {
        table.row([
            tenant.tenant.clone(),
            tenant.running.to_string(),
            tenant.sandboxes.to_string(),
            tenant.executions.to_string(),
            quantity::long(tenant.running_time),
            quantity::short(tenant.cpu_time),
            format!("{:.3}", tenant.memory_mib_seconds as f64 / 1024.0 / 3600.0),
            quantity::size(tenant.bytes_in),
            quantity::size(tenant.bytes_out),
            tenant.gateway_cost.to_string(),
            tenant.gateway_cost_today.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use super::*;

    #[test]
    fn memory_is_charged_by_the_hour() {
        let tenant =
            TenantUsage { tenant: "a".into(), memory_mib_seconds: 1024 * 3600 * 2, ..TenantUsage::default() };
        let text = table(&[tenant]).text();
        assert_eq!(
            text.lines().nth(1).and_then(|line| line.split_whitespace().nth(6)),
            Some("2.000"),
            "{text}"
        );
    }
}
