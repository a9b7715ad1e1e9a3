//! `rekindle create`: creates a sandbox and prints its id.

use rekindle_api::client::Client;
use rekindle_api::time::duration;
use rekindle_api::v1::{CreateSandboxRequest, Limits, OnTimeout};

use super::{print, refusal, view};
use crate::cli::args::{CreateOptions, OnTimeoutName};

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

/// What happens at the end of its time, in the API's words.
pub fn on_timeout(name: Option<OnTimeoutName>) -> i32 {
    let value = match name {
        None => OnTimeout::Unspecified,
        Some(OnTimeoutName::Destroy) => OnTimeout::Destroy,
        Some(OnTimeoutName::Pause) => OnTimeout::Pause,
        Some(OnTimeoutName::PauseUntilUsed) => OnTimeout::PauseUntilUsed,
        Some(OnTimeoutName::PauseWithoutMemory) => OnTimeout::PauseWithoutMemory,
    };
    value.into()
}

fn request(options: CreateOptions) -> CreateSandboxRequest {
    CreateSandboxRequest {
        template: options.template,
        limits: Some(Limits {
            milli_cpus: options.cpus.map_or(0, |cpus| cpus.millis),
            memory_bytes: options.memory.unwrap_or(0),
            pids: options.pids.unwrap_or(0),
        }),
        env: options.env.into_iter().collect(),
        ttl: options.ttl.map(duration),
        idle_timeout: options.idle.map(duration),
        metadata: options.meta.into_iter().collect(),
        queue_timeout: options.wait.map(duration),
        request_id: options.request_id,
        network: options.network,
        on_timeout: on_timeout(options.on_timeout),
        gateway: options.gateway,
        gateway_budget: options.gateway_budget,
        max_turns: options.max_turns.unwrap_or(0),
        result_path: options.result_path,
    }
}
