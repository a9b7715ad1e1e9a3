//! What the options of `exec` ask a server for.

use std::io::IsTerminal as _;

use anyhow::bail;
use rekindle_api::v1::ExecuteRequest;

use crate::cli::args::ExecOptions;
use crate::cli::execution;

/// Refuses what cannot be done, before anything is.
pub fn check(options: &ExecOptions) -> anyhow::Result<()> {
    if options.tty && options.interactive && !options.detach && !std::io::stdin().is_terminal() {
        bail!(
            "standard input is no terminal\nhint: leave out -t to hand on what comes from a pipe or a file"
        );
    }
    if options.key.as_deref() == Some("") {
        bail!("the key is empty\nhint: a key names the call, such as a request's id");
    }
    Ok(())
}

/// The request.
pub fn request(options: &ExecOptions, sandbox: String) -> ExecuteRequest {
    let idempotency_key = options.key.clone().unwrap_or_default();
    ExecuteRequest { sandbox, idempotency_key, ..execution::request(&options.program) }
}
