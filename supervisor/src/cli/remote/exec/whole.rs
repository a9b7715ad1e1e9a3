//! An execution as one call: its input beforehand, its shortened output at the end. When this process is ended
//! the call is, and with it the program.

use std::io::Read as _;

use anyhow::{Context, bail};
use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::v1::ExecuteRequest;

use super::Ended;
use crate::cli::args::ExecOptions;
use crate::cli::remote::refusal;

/// Most input that fits into the call.
const MAX_STDIN: u64 = 1024 * 1024;

/// Runs it.
pub(super) async fn whole(
    client: &mut Client,
    options: &ExecOptions,
    mut request: ExecuteRequest,
) -> anyhow::Result<Ended> {
    if options.interactive {
        // On a thread of its own, so that the runtime goes on.
        request.stdin = tokio::task::spawn_blocking(|| read(std::io::stdin())).await??;
    }
    let response = client.sandboxes.execute(request).await.map_err(refusal::not_started)?;
    Ok(Ended::Finished(Box::new(response.into_inner())))
}

fn read(input: impl std::io::Read) -> anyhow::Result<Bytes> {
    let mut all = Vec::new();
    input.take(MAX_STDIN + 1).read_to_end(&mut all).context("cannot read standard input")?;
    if all.len() as u64 > MAX_STDIN {
        bail!(
            "standard input is longer than the 1 MiB a call with --key takes\nhint: `rekindle put` it first"
        );
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    //! How much input is taken.

    use super::*;

    #[test]
    fn input_is_taken_whole_or_not_at_all() {
        assert_eq!(read(&b"abc"[..]).expect("short"), "abc");
        assert_eq!(read(std::io::repeat(1).take(MAX_STDIN)).expect("fits").len() as u64, MAX_STDIN);
        assert!(read(std::io::repeat(1)).is_err());
    }
}
