//! `rekindle pause`: stops a sandbox's processors and its clocks, or ends all but its files.

use rekindle_api::client::Client;
use rekindle_api::v1::PauseSandboxRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::PauseOptions;

/// Runs the command.
pub async fn pause(mut client: Client, options: PauseOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = PauseSandboxRequest { sandbox, without_memory: options.without_memory };
    let sandbox = client.sandboxes.pause(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
