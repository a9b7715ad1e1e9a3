//! `rekindle ls`: lists a directory of a sandbox. The names are a guest's and are shown escaped.

use std::os::unix::ffi::OsStringExt as _;

use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::v1::{
    ErrorReason, FileInfo, FileKind, ListFilesRequest, ListFilesResponse, StatFileRequest,
};
use serde::Serialize;

use super::table::{Side, Table};
use super::{escape, print, quantity, refusal, resolve, view};
use crate::cli::args::LsOptions;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Listing {
    entries: Vec<view::File>,
    truncated: bool,
}

/// Runs the command.
pub async fn ls(mut client: Client, options: LsOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let path = Bytes::from(options.path.unwrap_or_default().into_vec());
    let request = ListFilesRequest {
        sandbox: sandbox.clone(),
        path: path.clone(),
        max_entries: 0,
        depth: options.depth,
        user: options.user.name.to_wire(),
    };
    let listing = match client.files.list(request).await {
        Ok(listing) => listing.into_inner(),
        // A file is a list of one.
        Err(status) if refusal::is(&status, ErrorReason::WrongFileKind) => {
            let request = StatFileRequest { sandbox, path, user: options.user.name.to_wire() };
            let info = client.files.stat(request).await.map_err(refusal::refused)?.into_inner();
            ListFilesResponse { entries: vec![info], truncated: false }
        }
        Err(status) => return Err(refusal::refused(status)),
    };
    if options.json {
        let entries = listing.entries.iter().map(view::File::from).collect();
        print::json(&Listing { entries, truncated: listing.truncated })?;
        return Ok(0);
    }
    print::text(&table(listing.entries).text())?;
    if listing.truncated {
        eprintln!("rekindle: there are more entries than the server lists");
    }
    Ok(0)
}

fn table(mut entries: Vec<FileInfo>) -> Table {
    // By name within a directory, and each directory before what is in it.
    let names =
        |entry: &FileInfo| entry.path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    entries.sort_by_cached_key(names);
    let mut table = Table::new(&[
        ("MODE", Side::Left),
        ("OWNER", Side::Left),
        ("GROUP", Side::Left),
        ("SIZE", Side::Right),
        ("MODIFIED (UTC)", Side::Left),
        ("NAME", Side::Left),
    ]);
    for entry in &entries {
        let mut name = escape::bytes(&entry.path);
        if entry.kind() == FileKind::Symlink {
            name.push_str(" -> ");
            name.push_str(&escape::bytes(&entry.link_target));
        }
        table.row([
            mode(entry),
            owner(&entry.owner, entry.uid),
            owner(&entry.group, entry.gid),
            entry.size.to_string(),
            quantity::minute(entry.modified_at),
            name,
        ]);
    }
    table
}

/// What the sandbox calls someone; else the number.
fn owner(name: &str, id: u32) -> String {
    if name.is_empty() { id.to_string() } else { escape::bytes(name.as_bytes()) }
}

/// Kind and permissions as `ls -l` writes them.
fn mode(entry: &FileInfo) -> String {
    let mut text = String::from(match entry.kind() {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Other | FileKind::Unspecified => '?',
    });
    for (shift, special, executable, not) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, true) => executable,
            (false, true) => not,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    //! What a listing looks like.

    use super::*;

    fn info(path: &'static [u8], kind: FileKind, mode: u32) -> FileInfo {
        FileInfo {
            path: Bytes::from_static(path),
            kind: kind.into(),
            mode,
            size: 5,
            uid: 1000,
            gid: 1000,
            group: "u\x1b".into(),
            modified_at: Some(rekindle_api::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            link_target: if kind == FileKind::Symlink { Bytes::from_static(b"a\x1b") } else { Bytes::new() },
            ..FileInfo::default()
        }
    }

    #[test]
    fn permissions_read_as_they_do_elsewhere() {
        assert_eq!(mode(&info(b"", FileKind::File, 0o644)), "-rw-r--r--");
        assert_eq!(mode(&info(b"", FileKind::Directory, 0o1777)), "drwxrwxrwt");
        assert_eq!(mode(&info(b"", FileKind::File, 0o6754)), "-rwsr-sr--");
        assert_eq!(mode(&info(b"", FileKind::File, 0o4644)), "-rwSr--r--");
        assert_eq!(mode(&info(b"", FileKind::Other, 0)), "?---------");
    }

    #[test]
    fn a_hostile_name_is_spelled_out() {
        let table = table(vec![
            info(b"link", FileKind::Symlink, 0o777),
            info(b"\x1b]0;evil\x07\xff\n", FileKind::File, 0o600),
        ]);
        assert_eq!(
            table.text(),
            "MODE        OWNER  GROUP    SIZE  MODIFIED (UTC)    NAME\n\
             -rw-------  1000   u\\u{1b}     5  2023-11-14 22:13  \\u{1b}]0;evil\\u{7}\\xff\\n\n\
             lrwxrwxrwx  1000   u\\u{1b}     5  2023-11-14 22:13  link -> a\\u{1b}\n"
        );
    }
}
