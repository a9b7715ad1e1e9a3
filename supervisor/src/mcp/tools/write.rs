//! `sandbox_write`: writes one file, whole or not at all.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::v1::upload_file_request::Part;
use rekindle_api::v1::{UploadFileEnd, UploadFileRequest, UploadFileStart};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::facts::Facts;
use crate::mcp::rules::{Rules, size};
use crate::mcp::{arguments, line, refusal};

pub(super) const NAME: &str = "sandbox_write";

/// Pieces in which content is sent.
const PIECE: usize = 256 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    sandbox: String,
    path: String,
    content: String,
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Text,
    Base64,
}

pub(super) fn tool(facts: &Facts, rules: Option<&Rules<'_>>) -> Tool {
    let text = format!(
        "Writes a file into a sandbox, whole or not at all: what was there is replaced, and directories on the way are \
         made. At most {}. {}",
        size(facts.rules.max_upload_bytes),
        super::ids(rules)
    );
    let properties = json!({
        "sandbox": super::sandbox_argument(),
        "path": {"type": "string", "description": "The file, absolute or from the home directory on."},
        "content": {"type": "string", "description": "All of its content."},
        "encoding": {
            "type": "string", "enum": ["text", "base64"], "default": "text",
            "description": "How `content` is given; base64 for what is no text.",
        },
    });
    let annotations = ToolAnnotations::with_title("Write into a sandbox")
        .read_only(false)
        .idempotent(true)
        .open_world(false);
    super::tool(NAME, text.trim_end().to_owned(), &properties, &["sandbox", "path", "content"], annotations)
}

pub(super) async fn call(
    mut client: Client,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, String> {
    let Arguments { sandbox, path, content, encoding } = arguments::read(arguments)?;
    let content = match encoding {
        Encoding::Text => Bytes::from(content),
        Encoding::Base64 => STANDARD.decode(content.trim()).map(Bytes::from).map_err(|error| {
            format!(
                "refused: INVALID_ARGUMENTS: content is no base64: {error}\nhint: use the standard alphabet with padding \
                 and without line breaks, or the encoding `text`; nothing was written"
            )
        })?,
    };
    let start = UploadFileStart {
        sandbox,
        path: Bytes::from(path.clone()),
        size: Some(content.len() as u64),
        ..UploadFileStart::default()
    };
    let part = |part| UploadFileRequest { part: Some(part) };
    let mut parts = vec![part(Part::Start(start))];
    let pieces = (0..content.len()).step_by(PIECE).map(|at| content.slice(at..content.len().min(at + PIECE)));
    parts.extend(pieces.map(|piece| part(Part::Chunk(piece))));
    parts.push(part(Part::End(UploadFileEnd {})));
    let upload = client.files.upload(futures::stream::iter(parts)).await;
    let info = upload.map_err(|status| refusal::describe(&status))?.into_inner();
    let text = format!("wrote {} bytes to {}", info.size, line::one_line(&path));
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}
