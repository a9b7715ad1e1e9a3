//! `rekindle exec`: runs a program in a sandbox, with the exit codes of `rekindle run`.
//!
//! ```text
//!           --stream, -i or -t            else, or --key                 --detach
//!   live: output as it comes,       whole: one call, its shortened    detach: left running
//!   input, signals, terminal        output at the end
//! ```

mod detach;
mod live;
mod request;
mod whole;

use rekindle_api::client::Client;
use rekindle_api::v1::ExecuteResponse;

pub(super) use self::live::pump;
use super::{print, resolve};
use crate::cli::args::ExecOptions;
use crate::cli::execution::{End, Execution, show_end};

/// How an execution came to an end here.
pub(super) enum Ended {
    /// It told how.
    Finished(Box<ExecuteResponse>),
    /// This command was asked to end first, and exits with this code.
    Left(u8),
}

/// Runs the command.
pub async fn exec(mut client: Client, options: ExecOptions) -> anyhow::Result<u8> {
    request::check(&options)?;
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = request::request(&options, sandbox);
    if options.detach {
        return detach::detach(&mut client, &options, request).await;
    }
    let live = (options.program.stream || options.interactive || options.tty) && options.key.is_none();
    let ended = if live {
        live::live(&mut client, &options, request).await?
    } else {
        whole::whole(&mut client, &options, request).await?
    };
    finish(ended, options.program.json, live)
}

/// Tells how it ended, and with it what this process exits with. `shown` says that its output was printed as it came.
pub(super) fn finish(ended: Ended, json: bool, shown: bool) -> anyhow::Result<u8> {
    let response = match ended {
        Ended::Finished(response) => response,
        Ended::Left(code) => return Ok(code),
    };
    let end = End::of(&response)?;
    let code = end.code();
    if json {
        print::json(&Execution::new(*response, end))?;
    } else {
        show_end(&response, &end, shown)?;
    }
    Ok(code)
}
