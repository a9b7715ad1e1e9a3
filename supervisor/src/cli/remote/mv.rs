//! `rekindle mv`: gives a file or a directory of a sandbox another path.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use bytes::Bytes;
use rekindle::agent::{GuestPath, InvalidPath};
use rekindle_api::client::Client;
use rekindle_api::v1::MoveFileRequest;

use super::{print, refusal, resolve, view};
use crate::cli::args::MvOptions;

/// Runs the command.
pub async fn mv(mut client: Client, options: MvOptions) -> anyhow::Result<u8> {
    let (from, to) = (path(options.from)?, path(options.to)?);
    let request = MoveFileRequest {
        sandbox: resolve::resolve(&mut client, &options.sandbox).await?,
        from,
        to,
        must_not_exist: options.no_clobber,
        user: options.user.name.to_wire(),
    };
    let moved = client.files.r#move(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        print::json(&view::File::from(&moved))?;
    }
    Ok(0)
}

fn path(text: OsString) -> Result<Bytes, InvalidPath> {
    GuestPath::new(text.into_vec()).map(|path| Bytes::copy_from_slice(path.as_bytes()))
}
