//! `rekindle get`: copies one file, or a directory as a tar archive, out of a sandbox. It is written beside its
//! place and moved there once it is complete and checked, so that a failure leaves what was there.

use std::fs::Permissions;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use rekindle::agent::GuestPath;
use rekindle_api::client::Client;
use rekindle_api::v1::DownloadFileRequest;
use rekindle_api::v1::download_file_response::Part;
use tempfile::NamedTempFile;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::transfer::Meter;
use super::{refusal, resolve};
use crate::cli::args::GetOptions;
use crate::cli::interrupt::{SIGNAL_BASE, interrupted};

/// Where a download goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// To standard output.
    Output,
    /// Into something that is no file, such as a device or a pipe: never replaced.
    Into(PathBuf),
    /// To a file, by way of another beside it.
    File(PathBuf),
}

/// Runs the command.
pub async fn get(mut client: Client, options: GetOptions) -> anyhow::Result<u8> {
    let path = GuestPath::new(options.guest.into_vec())?;
    let place = place(&options.local, &path)?;
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let path = Bytes::copy_from_slice(path.as_bytes());
    let request = DownloadFileRequest { sandbox, path, max_bytes: 0, user: options.user.name.to_wire() };
    tokio::select! {
        done = fetch(&mut client, request, &place) => done.map(|()| 0),
        // Caught so that the file beside is removed.
        number = interrupted(true) => Ok(SIGNAL_BASE + number),
    }
}

/// What is meant by the local path; a directory means a file of the same name in it.
fn place(local: &Path, guest: &GuestPath) -> anyhow::Result<Place> {
    if local == Path::new("-") {
        return Ok(Place::Output);
    }
    let Ok(facts) = std::fs::metadata(local) else { return Ok(Place::File(local.to_owned())) };
    // Through links, so that the file they lead to is replaced and not they.
    let local = std::fs::canonicalize(local).with_context(|| format!("cannot use {}", local.display()))?;
    if facts.is_file() {
        return Ok(Place::File(local));
    }
    if !facts.is_dir() {
        return Ok(Place::Into(local));
    }
    let guest = Path::new(std::ffi::OsStr::from_bytes(guest.as_bytes()));
    let Some(name) = guest.file_name() else {
        bail!("{} is a directory, and {} has no name\nhint: name a file", local.display(), guest.display());
    };
    let within = local.join(name);
    if within.is_dir() {
        bail!("{} is a directory\nhint: name a file", within.display());
    }
    Ok(Place::File(within))
}

async fn fetch(client: &mut Client, request: DownloadFileRequest, place: &Place) -> anyhow::Result<()> {
    match place {
        Place::Output => receive(client, request, "-", tokio::io::stdout()).await,
        Place::Into(path) => {
            let cannot = || format!("cannot write to {}", path.display());
            let file = tokio::fs::File::options().write(true).open(path).await.with_context(cannot)?;
            receive(client, request, &path.display().to_string(), file).await
        }
        Place::File(path) => {
            let aside = aside(path)?;
            let file = tokio::fs::File::from_std(aside.reopen()?);
            receive(client, request, &path.display().to_string(), file).await?;
            aside.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(())
        }
    }
}

/// An empty file beside a path, with the permissions any new file has.
fn aside(path: &Path) -> anyhow::Result<NamedTempFile> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".rekindle-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .with_context(|| format!("cannot write to {}", dir.display()))
}

/// Writes everything and checks it.
async fn receive(
    client: &mut Client,
    request: DownloadFileRequest,
    name: &str,
    mut out: impl AsyncWrite + Unpin,
) -> anyhow::Result<()> {
    let mut parts = client.files.download(request).await.map_err(refusal::refused)?.into_inner();
    let mut meter = Meter::start(name, None);
    while let Some(message) = parts.message().await.map_err(refusal::refused)? {
        match message.part {
            Some(Part::Chunk(chunk)) => {
                out.write_all(&chunk).await.context("cannot write what arrived")?;
                meter.pass(&chunk);
            }
            Some(Part::End(end)) => {
                out.flush().await.context("cannot write what arrived")?;
                return meter.check(end.size, &end.sha256);
            }
            None => {}
        }
    }
    bail!("the download ended after {} bytes and is incomplete\nhint: try again", meter.bytes())
}

#[cfg(test)]
mod tests {
    //! Where a download goes.

    use super::*;

    fn guest(path: &str) -> GuestPath {
        GuestPath::new(path.as_bytes().to_vec()).expect("a path")
    }

    #[test]
    fn a_directory_gets_a_file_of_the_same_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().canonicalize().expect("it is there");
        assert_eq!(place(dir.path(), &guest("/a/b.txt")).expect("right"), Place::File(real.join("b.txt")));
        assert!(place(dir.path(), &guest("/")).is_err());
        assert!(place(dir.path(), &guest("..")).is_err(), "never out of the directory");
        std::fs::create_dir(real.join("b.txt")).expect("made");
        assert!(place(dir.path(), &guest("b.txt")).is_err());
    }

    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        assert_eq!(
            place(Path::new("/dev/null"), &guest("a")).expect("right"),
            Place::Into("/dev/null".into())
        );
        assert_eq!(place(Path::new("-"), &guest("a")).expect("right"), Place::Output);
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().canonicalize().expect("it is there");
        std::fs::write(real.join("file"), "").expect("written");
        std::os::unix::fs::symlink("file", real.join("link")).expect("linked");
        assert_eq!(place(&real.join("link"), &guest("a")).expect("right"), Place::File(real.join("file")));
    }
}
