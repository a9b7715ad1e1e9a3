//! `rekindle timeout`: sets how long a sandbox still has.

use rekindle_api::client::Client;
use rekindle_api::v1::SetTimeoutRequest;

use super::{print, quantity, refusal, resolve, view};
use crate::cli::args::TimeoutOptions;

/// Runs the command.
pub async fn timeout(mut client: Client, options: TimeoutOptions) -> anyhow::Result<u8> {
    let request = SetTimeoutRequest {
        sandbox: resolve::resolve(&mut client, &options.sandbox).await?,
        ttl_millis: quantity::to_millis(options.ttl),
        idle_timeout_millis: quantity::to_millis(options.idle),
    };
    let sandbox = client.sandboxes.set_timeout(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
