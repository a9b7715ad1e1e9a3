//! `rekindle mkdir`: makes a directory in a sandbox, and those above it.

use std::os::unix::ffi::OsStringExt as _;

use bytes::Bytes;
use rekindle::agent::GuestPath;
use rekindle_api::client::Client;
use rekindle_api::v1::MakeDirRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::MkdirOptions;

/// Runs the command.
pub async fn mkdir(mut client: Client, options: MkdirOptions) -> anyhow::Result<u8> {
    let path = GuestPath::new(options.path.into_vec())?;
    let request = MakeDirRequest {
        sandbox: resolve::resolve(&mut client, &options.sandbox).await?,
        path: Bytes::copy_from_slice(path.as_bytes()),
        mode: options.mode,
        must_not_exist: options.no_clobber,
        user: options.user.name.to_wire(),
    };
    let made = client.files.make_dir(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::File::from(&made))?;
    }
    Ok(0)
}
