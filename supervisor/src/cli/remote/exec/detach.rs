//! An execution that is left running: this command only starts it.

use rekindle_api::client::Client;
use rekindle_api::v1::{ExecuteRequest, StartExecutionRequest};

use crate::cli::args::ExecOptions;
use crate::cli::remote::{escape, print, refusal, terminal, view};

/// Starts it and prints its name.
pub(super) async fn detach(
    client: &mut Client,
    options: &ExecOptions,
    request: ExecuteRequest,
) -> anyhow::Result<u8> {
    let start = StartExecutionRequest {
        request: Some(request),
        terminal: options.tty.then(terminal::size),
        live_stdin: options.interactive,
    };
    let job = client.executions.start(start).await.map_err(refusal::not_started)?.into_inner();
    if options.program.json {
        print::json(&view::Job::from(job))?;
    } else {
        print::line(&escape::text(&job.execution))?;
    }
    Ok(0)
}
