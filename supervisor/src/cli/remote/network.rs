//! `rekindle network`: puts a sandbox under another network policy.

use rekindle_api::client::Client;
use rekindle_api::v1::UpdateNetworkRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::NetworkOptions;

/// Runs the command.
pub async fn network(mut client: Client, options: NetworkOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = UpdateNetworkRequest { sandbox, network: options.policy };
    let sandbox = client.network.update(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
