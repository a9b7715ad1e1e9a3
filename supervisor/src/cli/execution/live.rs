//! Output that is printed as it comes.

use anyhow::Context as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::cli::interrupt::SIGNAL_BASE;

/// What this process exits with when nobody reads what it prints, as a local program would: by SIGPIPE.
pub const UNREAD: u8 = SIGNAL_BASE + 13;

/// Prints a piece; whether somebody reads it.
pub async fn print_live(out: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> anyhow::Result<bool> {
    let written = async {
        out.write_all(data).await?;
        out.flush().await
    };
    match written.await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot print the program's output"),
    }
}
