//! `rekindle put`: copies one file, or standard input, into a sandbox, and checks that it arrived.

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, bail};
use bytes::Bytes;
use rekindle::agent::GuestPath;
use rekindle_api::client::Client;
use rekindle_api::v1::upload_file_request::Part;
use rekindle_api::v1::{FileInfo, UploadFileEnd, UploadFileRequest, UploadFileStart};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::requests::{Requests, requests};
use super::transfer::Meter;
use super::{print, refusal, resolve, view};
use crate::cli::args::PutOptions;

/// Pieces in which a file is sent.
const PIECE: usize = 256 * 1024;

/// Something to read, with its permission bits and its size where they are known.
type Source = (Box<dyn AsyncRead + Send + Unpin>, Option<u32>, Option<u64>);

/// Runs the command.
pub async fn put(mut client: Client, options: PutOptions) -> anyhow::Result<u8> {
    let path = GuestPath::new(options.guest.into_vec())?;
    let (input, mode, size) = open(&options.local).await?;
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let path = Bytes::copy_from_slice(path.as_bytes());
    let file = UploadFileStart {
        sandbox,
        path,
        mode,
        must_not_exist: options.no_clobber,
        size,
        metadata: options.meta.into_iter().collect(),
        in_place: options.in_place,
        user: options.user.name.to_wire(),
    };
    let meter = Meter::start(&options.local.display().to_string(), size);
    let info = send(&mut client, file, input, meter).await?;
    if options.json {
        print::json(&view::File::from(&info))?;
    }
    Ok(0)
}

async fn open(local: &Path) -> anyhow::Result<Source> {
    if local == Path::new("-") {
        return Ok((Box::new(tokio::io::stdin()), None, None));
    }
    let cannot = || format!("cannot open {}", local.display());
    let file = tokio::fs::File::open(local).await.with_context(cannot)?;
    let facts = file.metadata().await.with_context(cannot)?;
    if facts.is_dir() {
        bail!(
            "{} is a directory\nhint: pack it first: `tar c DIR | rekindle put SANDBOX - FILE`",
            local.display()
        );
    }
    // A pipe or a device has no size to go by.
    let size = facts.is_file().then_some(facts.len());
    Ok((Box::new(file), Some(facts.permissions().mode() & 0o777), size))
}

/// Sends it all and returns what the server says of it.
pub(super) async fn send(
    client: &mut Client,
    file: UploadFileStart,
    input: impl AsyncRead + Unpin,
    mut meter: Meter,
) -> anyhow::Result<FileInfo> {
    let (parts, stream) = requests();
    let call = client.files.upload(stream);
    tokio::pin!(call);
    let answer = tokio::select! {
        // The server need not wait for the end to refuse.
        answer = &mut call => answer,
        fed = feed(&parts, file, input, &mut meter) => {
            fed?;
            call.await
        }
    };
    let info = answer.map_err(refusal::refused)?.into_inner();
    meter.check(info.size, &info.sha256)?;
    Ok(info)
}

/// Hands the file to the call. Only one that was read to its end is called whole.
async fn feed(
    parts: &Requests<UploadFileRequest>,
    file: UploadFileStart,
    mut input: impl AsyncRead + Unpin,
    meter: &mut Meter,
) -> anyhow::Result<()> {
    // A call that takes no more has its answer ready.
    if parts.send(UploadFileRequest { part: Some(Part::Start(file)) }).await.is_err() {
        return Ok(());
    }
    let mut piece = vec![0; PIECE];
    loop {
        let n = input.read(&mut piece).await.context("cannot read what is to be copied")?;
        if n == 0 {
            let _ = parts.send(UploadFileRequest { part: Some(Part::End(UploadFileEnd {})) }).await;
            let _ = parts.end().await;
            return Ok(());
        }
        meter.pass(&piece[..n]);
        let chunk = Part::Chunk(Bytes::copy_from_slice(&piece[..n]));
        if parts.send(UploadFileRequest { part: Some(chunk) }).await.is_err() {
            return Ok(());
        }
    }
}
