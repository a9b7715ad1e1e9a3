//! `rekindle resume`: lets a paused sandbox run again.

use rekindle_api::client::Client;
use rekindle_api::v1::ResumeSandboxRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::OneOptions;

/// Runs the command.
pub async fn resume(mut client: Client, options: OneOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = ResumeSandboxRequest { sandbox };
    let sandbox = client.sandboxes.resume(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::Sandbox::from(&sandbox))?;
    }
    Ok(0)
}
