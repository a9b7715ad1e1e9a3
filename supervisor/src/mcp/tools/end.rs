//! `sandbox_end`: ends a sandbox, with everything in it.

use rekindle_api::client::Client;
use rekindle_api::v1::DestroySandboxRequest;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::rules::Rules;
use crate::mcp::server::Mcp;
use crate::mcp::{arguments, line, refusal};

pub(super) const NAME: &str = "sandbox_end";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    sandbox: String,
}

pub(super) fn tool(rules: Option<&Rules<'_>>) -> Tool {
    let text = format!(
        "Ends a sandbox: its programs are killed and its files are gone for good. Read what you still need first. Ending \
         one that has ended is no error. {}",
        super::ids(rules)
    );
    let annotations = ToolAnnotations::with_title("End a sandbox")
        .read_only(false)
        .destructive(true)
        .idempotent(true)
        .open_world(false);
    let properties = json!({"sandbox": super::sandbox_argument()});
    super::tool(NAME, text.trim_end().to_owned(), &properties, &["sandbox"], annotations)
}

pub(super) async fn call(
    mcp: &Mcp,
    mut client: Client,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, String> {
    let Arguments { sandbox } = arguments::read(arguments)?;
    let request = DestroySandboxRequest { sandbox: sandbox.clone() };
    client.sandboxes.destroy(request).await.map_err(|status| refusal::describe(&status))?;
    if let Some(session) = &mcp.session {
        session.forget(&sandbox);
    }
    let text = format!("sandbox {} has ended; its files are gone", line::one_line(&sandbox));
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}
