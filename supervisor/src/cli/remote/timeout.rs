//! `rekindle timeout`: sets how long a sandbox still has.

use rekindle_api::client::Client;
use rekindle_api::time::duration;
use rekindle_api::v1::SetSandboxTimeoutRequest;

use super::{create, print, refusal, resolve, view};
use crate::cli::args::TimeoutOptions;

/// Runs the command.
pub async fn timeout(mut client: Client, options: TimeoutOptions) -> anyhow::Result<u8> {
    let request = SetSandboxTimeoutRequest {
        sandbox: resolve::resolve(&mut client, &options.sandbox).await?,
        ttl: options.ttl.map(duration),
        idle_timeout: options.idle.map(duration),
        on_timeout: create::on_timeout(options.on_timeout),
    };
    let sandbox = client.sandboxes.set_timeout(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
