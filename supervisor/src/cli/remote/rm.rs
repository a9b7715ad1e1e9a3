//! `rekindle rm`: ends sandboxes, several at a time, and returns when nothing of them is left.

use futures::StreamExt as _;
use futures::stream;
use rekindle_api::client::Client;
use rekindle_api::v1::{DestroySandboxRequest, ListSandboxesRequest};

use super::{escape, print, refusal, resolve};
use crate::cli::OWN_FAILURE;
use crate::cli::args::RmOptions;
use crate::cli::failure;

/// How many are ended at a time.
const AT_ONCE: usize = 8;

/// Runs the command. One that cannot be ended does not keep the others alive.
pub async fn rm(mut client: Client, options: RmOptions) -> anyhow::Result<u8> {
    let mut code = 0;
    let mut ids = Vec::new();
    if options.all {
        let sandboxes = resolve::list(&mut client, ListSandboxesRequest::default()).await?;
        ids.extend(sandboxes.into_iter().map(|sandbox| sandbox.id));
    }
    for text in &options.sandboxes {
        match resolve::resolve(&mut client, text).await {
            Ok(id) => ids.push(id),
            Err(error) => {
                failure::report(&error);
                code = OWN_FAILURE;
            }
        }
    }
    let mut ended = stream::iter(ids).map(|id| destroy(client.clone(), id)).buffer_unordered(AT_ONCE);
    while let Some(ended) = ended.next().await {
        match ended {
            Ok(id) => print::line(&escape::text(&id))?,
            Err(error) => {
                failure::report(&error);
                code = OWN_FAILURE;
            }
        }
    }
    Ok(code)
}

async fn destroy(mut client: Client, id: String) -> anyhow::Result<String> {
    let request = DestroySandboxRequest { sandbox: id.clone() };
    match client.sandboxes.destroy(request).await {
        Ok(_) => Ok(id),
        Err(status) => {
            Err(refusal::refused(status).context(format!("{} could not be ended", escape::text(&id))))
        }
    }
}
