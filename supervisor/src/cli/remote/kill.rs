//! `rekindle kill`: sends a signal to detached programs.

use rekindle_api::client::Client;
use rekindle_api::v1::SignalExecutionRequest;

use super::{escape, refusal, resolve};
use crate::cli::OWN_FAILURE;
use crate::cli::args::KillOptions;
use crate::cli::failure;

/// Runs the command. One that cannot be reached does not keep the others from being.
pub async fn kill(mut client: Client, options: KillOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let mut code = 0;
    for execution in options.executions {
        let request = SignalExecutionRequest {
            sandbox: sandbox.clone(),
            execution: execution.clone(),
            signal: options.signal,
            everyone: options.everyone,
        };
        if let Err(status) = client.executions.signal(request).await {
            let what = format!("{} was not signalled", escape::text(&execution));
            failure::report(&refusal::refused(status).context(what));
            code = OWN_FAILURE;
        }
    }
    Ok(code)
}
