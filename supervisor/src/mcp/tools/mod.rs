//! The tools, one file each: what a model is told about it, what it takes, and what it does.

mod create;
mod end;
mod read;
mod run;
mod write;

use std::sync::Arc;

use rekindle_api::client::Client;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::facts::Facts;
use super::line::one_line;
use super::rules::Rules;
use super::server::Mcp;

/// All of them, described for the template and the policy in force.
pub(super) fn list(mcp: &Mcp, facts: &Facts) -> Vec<Tool> {
    let rules = Rules::of(facts, &mcp.defaults.template, &mcp.defaults.network);
    let rules = rules.as_ref();
    vec![
        create::tool(mcp, facts, rules),
        run::tool(facts, rules),
        read::tool(rules),
        write::tool(facts, rules),
        end::tool(rules),
    ]
}

/// Calls one. What went wrong in a way that a model can act on is a result.
pub(super) async fn call(
    mcp: &Mcp,
    client: Client,
    name: &str,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, ErrorData> {
    let result = match name {
        create::NAME => create::call(mcp, client, arguments).await,
        run::NAME => run::call(client, arguments).await,
        read::NAME => read::call(client, arguments).await,
        write::NAME => write::call(client, arguments).await,
        end::NAME => end::call(mcp, client, arguments).await,
        other => {
            let message = format!("there is no tool {:?}", one_line(other));
            return Err(ErrorData::invalid_params(message, None));
        }
    };
    Ok(result.unwrap_or_else(super::refusal::failed))
}

/// A tool from its parts. Every argument that is not `required` may be left out, and no other is taken.
fn tool(
    name: &'static str,
    description: String,
    properties: &Value,
    required: &[&str],
    annotations: ToolAnnotations,
) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { unreachable!("it is written as an object above") };
    Tool::new(name, description, Arc::new(schema)).with_annotations(annotations)
}

/// The argument that every tool but one needs.
fn sandbox_argument() -> Value {
    json!({"type": "string", "description": "Id of the sandbox, as sandbox_create returned it. Never made up."})
}

/// What all tools but one say about ids; without a template in force there is nothing to ask.
fn ids(rules: Option<&Rules<'_>>) -> String {
    rules.map(Rules::ids).unwrap_or_default()
}
