//! `sandbox_read`: a page of a text file, an image, or what is in a directory.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::v1::download_file_response::Part;
use rekindle_api::v1::{
    DescribeFilesRequest, DownloadFileRequest, FileInfo, FileKind, ListFilesRequest, StatFileRequest,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::page::{Page, page};
use crate::mcp::rules::{Rules, size};
use crate::mcp::{arguments, image, line, refusal};

pub(super) const NAME: &str = "sandbox_read";

/// Bytes of a page, and the most they may be.
const PAGE: u64 = 4_000;
const MAX_PAGE: u64 = 100_000;
/// How far into a file a page may begin: everything before it has to be read too.
const MAX_OFFSET: u64 = 256 << 20;
/// The largest image: models take no larger ones.
const MAX_IMAGE: u64 = 4 << 20;
/// Entries of a directory that are listed.
const MAX_ENTRIES: u32 = 200;
/// Bytes that are shown of a file that is no text.
const SHOWN_BYTES: usize = 64;
/// Bytes by which a file's kind is told.
const HEAD: u64 = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    sandbox: String,
    path: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
    #[serde(default)]
    describe: bool,
}

pub(super) fn tool(rules: Option<&Rules<'_>>) -> Tool {
    let text = format!(
        "Reads a file of a sandbox: text as text, from byte `offset` on and at most `limit` bytes, {PAGE} when left out; \
         a PNG, JPEG, GIF or WebP image as an image you can look at; of a directory a listing. The first line of the \
         result says what it is, and for a text that goes on the offset of the next page. Of other binary files only \
         size and first bytes are shown. With `describe` it says instead what is in data, without reading it out: of JSON, \
         JSON Lines, CSV, Parquet, Excel and SQLite files and of directories the records, keys, types, ranges and \
         examples, in at most `limit` characters, however large the file is; do that first with data you have not seen. {}",
        super::ids(rules)
    );
    let properties = json!({
        "sandbox": super::sandbox_argument(),
        "path": {
            "type": "string",
            "description": "The file or directory, absolute or from the home directory on; `.` is the home directory.",
        },
        "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The first byte of the page."},
        "limit": {
            "type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE,
            "description": "Most bytes of the page.",
        },
        "describe": {
            "type": "boolean", "default": false,
            "description": "Say what is in the data instead of reading it; needs a python3 in the sandbox.",
        },
    });
    let annotations = ToolAnnotations::with_title("Read from a sandbox").read_only(true).open_world(false);
    super::tool(NAME, text.trim_end().to_owned(), &properties, &["sandbox", "path"], annotations)
}

pub(super) async fn call(
    mut client: Client,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, String> {
    let arguments: Arguments = arguments::read(arguments)?;
    let limit = arguments.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) || arguments.offset > MAX_OFFSET {
        return Err(format!(
            "refused: INVALID_ARGUMENTS: a page has 1 to {MAX_PAGE} bytes and begins at most {} into a file\nhint: use \
             grep, sed, head or tail with sandbox_run",
            size(MAX_OFFSET)
        ));
    }
    let path = Bytes::from(arguments.path.clone());
    if arguments.describe {
        return describe(&mut client, arguments.sandbox, path, limit).await;
    }
    let request = StatFileRequest {
        sandbox: arguments.sandbox.clone(),
        path: path.clone(),
        ..StatFileRequest::default()
    };
    let stat = client.files.stat(request).await.map_err(|status| refusal::describe(&status))?.into_inner();
    let kind = if stat.kind() == FileKind::Symlink { stat.link_kind() } else { stat.kind() };
    if kind == FileKind::Directory {
        return list(&mut client, arguments.sandbox, path).await;
    }
    let wanted = limit.max(HEAD);
    let window = fetch(&mut client, &arguments.sandbox, &path, arguments.offset, wanted).await?;
    let media_type = image::media_type(&window.bytes).filter(|_| arguments.offset == 0);
    if let Some(media_type) = media_type {
        return picture(&mut client, &arguments.sandbox, &path, media_type).await;
    }
    let window = window.cut(limit);
    Ok(success(window.text(&path, arguments.offset, size_of(&stat))))
}

/// How large a file is; of a link only what it leads to would tell.
fn size_of(stat: &FileInfo) -> Option<u64> {
    (stat.kind() == FileKind::File).then_some(stat.size)
}

fn success(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// A part of a file.
struct Window {
    bytes: Vec<u8>,
    /// The file ends with it, and is so large.
    end: Option<u64>,
}

/// Reads a part of a file: what is before it is thrown away, and what is after it not waited for.
async fn fetch(
    client: &mut Client,
    sandbox: &str,
    path: &Bytes,
    offset: u64,
    limit: u64,
) -> Result<Window, String> {
    let request = DownloadFileRequest {
        sandbox: sandbox.to_owned(),
        path: path.clone(),
        ..DownloadFileRequest::default()
    };
    let refused = |status: rekindle_api::Status| refusal::describe(&status);
    let mut parts = client.files.download(request).await.map_err(refused)?.into_inner();
    let (mut before, mut bytes) = (offset, Vec::new());
    while let Some(message) = parts.message().await.map_err(refused)? {
        match message.part {
            Some(Part::Chunk(chunk)) => {
                let skip = before.min(chunk.len() as u64);
                before -= skip;
                // Never beyond the chunk, so it fits.
                let rest = &chunk[skip as usize..];
                let room = limit - bytes.len() as u64;
                if rest.len() as u64 > room {
                    bytes.extend_from_slice(&rest[..room as usize]);
                    return Ok(Window { bytes, end: None });
                }
                bytes.extend_from_slice(rest);
            }
            Some(Part::End(end)) => return Ok(Window { bytes, end: Some(end.size) }),
            None => {}
        }
    }
    Err("refused: INCOMPLETE: the file did not arrive whole\nhint: try again".to_owned())
}

impl Window {
    /// Not more than so many bytes of it.
    fn cut(mut self, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.bytes.len() > limit {
            self.bytes.truncate(limit);
            self.end = None;
        }
        self
    }

    /// The page as a model reads it: one line about it, then the text.
    fn text(&self, path: &[u8], offset: u64, size: Option<u64>) -> String {
        let name = line::path(path);
        let total = match self.end.or(size) {
            Some(total) => format!(" of {total}"),
            None => String::new(),
        };
        if self.bytes.is_empty() {
            return match offset {
                0 => format!("{name} | empty file"),
                _ => format!("{name} | no bytes from {offset} on{total}"),
            };
        }
        match page(&self.bytes, offset == 0, self.end.is_some()) {
            Page::Text { skipped, text } => {
                let from = offset + skipped as u64;
                let to = from + text.len() as u64;
                let next = if self.end.is_some() {
                    "complete".to_owned()
                } else {
                    format!("next page: offset {to}")
                };
                let next = if self.end.is_some() && offset > 0 { "end of the file".to_owned() } else { next };
                format!("{name} | text | bytes {from} to {to}{total} | {next}\n{text}")
            }
            Page::Binary => {
                let shown = &self.bytes[..self.bytes.len().min(SHOWN_BYTES)];
                let bytes: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
                format!(
                    "{name} | binary, not shown as text{} | look into it with a program, with sandbox_run\n{} bytes from \
                     {offset} on: {}",
                    total.replace(" of ", " | bytes: "),
                    shown.len(),
                    bytes.join(" ")
                )
            }
        }
    }
}

/// What is in data. A text has room for a line at least, and not more than the server makes.
async fn describe(
    client: &mut Client,
    sandbox: String,
    path: Bytes,
    limit: u64,
) -> Result<CallToolResult, String> {
    let max_chars = u32::try_from(limit.clamp(200, 20_000)).unwrap_or(20_000);
    let request =
        DescribeFilesRequest { sandbox, paths: vec![path], max_chars, ..DescribeFilesRequest::default() };
    let described = client.files.describe(request).await.map_err(|status| refusal::describe(&status))?;
    Ok(success(described.into_inner().text))
}

async fn picture(
    client: &mut Client,
    sandbox: &str,
    path: &Bytes,
    media_type: &'static str,
) -> Result<CallToolResult, String> {
    let window = fetch(client, sandbox, path, 0, MAX_IMAGE).await?;
    let name = line::path(path);
    if window.end.is_none() {
        return Err(format!(
            "refused: LIMIT_EXCEEDED: {name} is an {media_type} of more than {}\nhint: make it smaller first, such as by a \
             lower resolution",
            size(MAX_IMAGE)
        ));
    }
    let about = format!("{name} | {media_type} | {} bytes", window.bytes.len());
    Ok(CallToolResult::success(vec![
        ContentBlock::text(about),
        ContentBlock::image(STANDARD.encode(&window.bytes), media_type),
    ]))
}

async fn list(client: &mut Client, sandbox: String, path: Bytes) -> Result<CallToolResult, String> {
    let name = line::path(&path);
    let request = ListFilesRequest { sandbox, path, max_entries: MAX_ENTRIES, ..ListFilesRequest::default() };
    let listed = client.files.list(request).await.map_err(|status| refusal::describe(&status))?.into_inner();
    let more = if listed.truncated { ", and more that are not listed" } else { "" };
    let mut text = format!("{name} | directory | {} entries{more}", listed.entries.len());
    for entry in &listed.entries {
        let own = line::path(&entry.path);
        text.push('\n');
        text.push_str(&match entry.kind() {
            FileKind::Directory => format!("{own}/"),
            FileKind::Symlink => format!("{own} -> {}", line::path(&entry.link_target)),
            FileKind::File => format!("{own} ({} bytes)", entry.size),
            FileKind::Other | FileKind::Unspecified => format!("{own} (neither file nor directory)"),
        });
    }
    Ok(success(text))
}

#[cfg(test)]
mod tests {
    //! Pages as a model reads them.

    use super::*;

    fn window(bytes: &[u8], end: Option<u64>) -> Window {
        Window { bytes: bytes.to_vec(), end }
    }

    #[test]
    fn the_first_line_says_where_the_next_page_begins() {
        assert_eq!(
            window(b"abcd", None).text(b"a.txt", 0, Some(10)),
            "a.txt | text | bytes 0 to 4 of 10 | next page: offset 4\nabcd"
        );
        assert_eq!(
            window(b"ij", Some(10)).text(b"a.txt", 8, Some(10)),
            "a.txt | text | bytes 8 to 10 of 10 | end of the file\nij"
        );
        assert_eq!(
            window(b"abc\n", Some(4)).text(b"a.txt", 0, None),
            "a.txt | text | bytes 0 to 4 of 4 | complete\nabc\n"
        );
        assert_eq!(
            window("ab€".as_bytes().split_at(3).0, None).text(b"a", 0, None),
            "a | text | bytes 0 to 2 | next page: offset 2\nab"
        );
    }

    #[test]
    fn a_page_is_never_longer_than_asked_for() {
        let cut = window(b"abcdef", Some(6)).cut(4);
        assert_eq!(cut.text(b"a", 0, Some(6)), "a | text | bytes 0 to 4 of 6 | next page: offset 4\nabcd");
        assert_eq!(window(b"abcdef", Some(6)).cut(6).end, Some(6));
    }

    #[test]
    fn empty_files_pages_beyond_the_end_and_binaries_are_said_to_be() {
        assert_eq!(window(b"", Some(0)).text(b"a", 0, Some(0)), "a | empty file");
        assert_eq!(window(b"", Some(7)).text(b"a", 9, Some(7)), "a | no bytes from 9 on of 7");
        let binary = window(&[0; 100], Some(100)).text(b"a\nb", 0, Some(100));
        assert!(binary.starts_with("a\\nb | binary, not shown as text | bytes: 100 | "), "{binary}");
        assert!(binary.ends_with("00 00") && binary.len() < 400, "{binary}");
    }
}
