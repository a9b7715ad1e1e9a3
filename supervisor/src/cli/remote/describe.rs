//! `rekindle describe`: what is in data of a sandbox, in few words. They are a guest's and are shown escaped.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use anyhow::Context as _;
use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::time::duration;
use rekindle_api::v1::DescribeFilesRequest;

use super::{escape, print, refusal, resolve};
use crate::cli::args::DescribeOptions;

/// Runs the command.
pub async fn describe(mut client: Client, options: DescribeOptions) -> anyhow::Result<u8> {
    let bytes = |path: OsString| Bytes::from(path.into_vec());
    let request = DescribeFilesRequest {
        sandbox: resolve::resolve(&mut client, &options.sandbox).await?,
        paths: options.paths.into_iter().map(bytes).collect(),
        max_chars: options.max_chars,
        user: options.user.name.to_wire(),
        loader: options.load_data.map(bytes).unwrap_or_default(),
        timeout: options.timeout.map(duration),
    };
    let described = client.files.describe(request).await.map_err(refusal::refused)?.into_inner();
    if options.json {
        let structure: serde_json::Value =
            serde_json::from_str(&described.structure).context("the server's answer is no JSON")?;
        print::json(&structure)?;
        return Ok(0);
    }
    for line in described.text.lines() {
        print::line(&escape::text(line))?;
    }
    Ok(0)
}
