//! `rekindle watch SANDBOX PATH`: prints what happens to the files of a directory until it is ended. The names are a
//! guest's and are shown escaped.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use anyhow::bail;
use bytes::Bytes;
use rekindle::agent::GuestPath;
use rekindle_api::client::Client;
use rekindle_api::v1::{FileEvent, WatchFilesRequest};

use super::{escape, print, refusal, view};
use crate::cli::args::WatchOptions;

/// Runs the command for this directory of a sandbox.
pub(super) async fn watch_files(
    mut client: Client,
    sandbox: String,
    path: OsString,
    options: WatchOptions,
) -> anyhow::Result<u8> {
    let path = GuestPath::new(path.into_vec())?;
    let request = WatchFilesRequest {
        sandbox,
        path: Bytes::copy_from_slice(path.as_bytes()),
        recursive: options.recursive,
        // A person is told the names alone.
        describe: options.json,
        user: options.user.name.to_wire(),
    };
    let mut changes = client.files.watch(request).await.map_err(refusal::refused)?.into_inner();
    while let Some(told) = changes.message().await.map_err(refusal::refused)? {
        for event in &told.events {
            if options.json {
                print::line(&serde_json::to_string(&view::FileEvent::from(event))?)?;
            } else {
                print::line(&line(event))?;
            }
        }
    }
    bail!("the server ended the watch\nhint: see whether the sandbox still runs with `rekindle ps`")
}

fn line(event: &FileEvent) -> String {
    format!("{:<7}  {}", view::file_event(event.kind), escape::bytes(&event.path))
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::v1::FileEventKind;

    use super::*;

    #[test]
    fn a_change_is_one_line_and_a_hostile_name_is_spelled_out() {
        let path = Bytes::from_static(b"a/\x1b[2J\n");
        let event = FileEvent { path, kind: FileEventKind::Written.into(), file: None };
        assert_eq!(line(&event), "written  a/\\u{1b}[2J\\n");
    }
}
