//! `rekindle create`: creates a sandbox and prints its id.

use rekindle_api::client::Client;
use rekindle_api::v1::{CreateRequest, Limits};

use super::{print, quantity, refusal, view};
use crate::cli::args::CreateOptions;

/// Runs the command.
pub async fn create(mut client: Client, options: CreateOptions) -> anyhow::Result<u8> {
    let json = options.json;
    let sandbox = client.sandboxes.create(request(options)).await.map_err(refusal::refused)?.into_inner();
    if json {
        print::json(&view::Sandbox::from(&sandbox))?;
    } else {
        print::line(&super::escape::text(&sandbox.id))?;
    }
    Ok(0)
}

fn request(options: CreateOptions) -> CreateRequest {
    CreateRequest {
        template: options.template,
        limits: Some(Limits {
            cpu_millis: options.cpus.map_or(0, |cpus| cpus.millis),
            memory_bytes: options.memory.unwrap_or(0),
            pids: options.pids.unwrap_or(0),
        }),
        env: options.env.into_iter().collect(),
        ttl_millis: quantity::to_millis(options.ttl),
        idle_timeout_millis: quantity::to_millis(options.idle),
        metadata: options.meta.into_iter().collect(),
        queue_millis: quantity::to_millis(options.wait),
    }
}
