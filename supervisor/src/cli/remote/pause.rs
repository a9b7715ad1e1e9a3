//! `rekindle pause`: stops a sandbox's processors and its clocks.

use rekindle_api::client::Client;
use rekindle_api::v1::PauseSandboxRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::OneOptions;

/// Runs the command.
pub async fn pause(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = PauseSandboxRequest { sandbox };
    let sandbox = client.sandboxes.pause(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
