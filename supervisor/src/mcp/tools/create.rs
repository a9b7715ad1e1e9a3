//! `sandbox_create`: makes a sandbox. In a session over standard input it ends with the session.

use std::collections::BTreeMap;
use std::time::Duration;

use rekindle_api::client::Client;
use rekindle_api::time::{duration, from_duration, from_timestamp};
use rekindle_api::v1::{CreateSandboxRequest, Sandbox};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mcp::facts::Facts;
use crate::mcp::line::one_line;
use crate::mcp::rules::{Rules, span};
use crate::mcp::server::Mcp;
use crate::mcp::{arguments, refusal};

pub(super) const NAME: &str = "sandbox_create";

/// What the sandbox is marked with, for whoever lists sandboxes.
const MARK: (&str, &str) = ("made_by", "mcp");
/// Templates and policies that are listed.
const MOST: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    template: Option<String>,
    network: Option<String>,
    ttl_seconds: Option<u64>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

pub(super) fn tool(mcp: &Mcp, facts: &Facts, rules: Option<&Rules<'_>>) -> Tool {
    let defaults = &mcp.defaults;
    let mut text =
        "Makes a sandbox and returns its id, which every other call needs. One is enough for a task: its \
                    files stay from call to call. End it with sandbox_end when you need it no more."
            .to_owned();
    match rules {
        Some(rules) => {
            let asked = (facts.lifetime(defaults.ttl), defaults.idle);
            for sentence in [rules.machine(), rules.network(), rules.lifetime(Some(asked))] {
                text.push(' ');
                text.push_str(&sentence);
            }
        }
        None => text.push_str(
            " The template that sandboxes are to be made from is not on this server: name another.",
        ),
    }
    if mcp.session.is_some() {
        text.push_str(" It also ends with this session.");
    }
    let templates: Vec<(&str, String)> = facts
        .templates
        .iter()
        .take(MOST)
        .map(|template| {
            (
                template.name.as_str(),
                format!("{}: {}", one_line(&template.name), one_line(&template.description)),
            )
        })
        .collect();
    let networks: Vec<(&str, String)> = std::iter::once(("none", "none: no network".to_owned()))
        .chain(facts.networks.iter().take(MOST).map(|policy| (policy.name.as_str(), one_line(&policy.name))))
        .collect();
    let most = facts.rules.max_ttl.and_then(from_duration).unwrap_or(defaults.ttl);
    let properties = json!({
        "template": choice("What it is made from; leave it out for the usual one.", &templates),
        "network": choice("Its network policy; leave it out for the usual one.", &networks),
        "ttl_seconds": {
            "type": "integer", "minimum": 1, "maximum": most.as_secs(),
            "description": format!("How long it may live; {} when left out.", span(facts.lifetime(defaults.ttl))),
        },
        "env": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Environment variables of every program in it.",
        },
    });
    let annotations = ToolAnnotations::with_title("Make a sandbox").read_only(false).destructive(false);
    super::tool(NAME, text, &properties, &[], annotations)
}

/// A string that is one of some names.
fn choice(about: &str, names: &[(&str, String)]) -> Value {
    let (values, told): (Vec<&str>, Vec<&str>) =
        names.iter().map(|(name, told)| (*name, told.as_str())).unzip();
    json!({"type": "string", "enum": values, "description": format!("{about} {}", told.join("; "))})
}

pub(super) async fn call(
    mcp: &Mcp,
    mut client: Client,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, String> {
    let Arguments { template, network, ttl_seconds, env } = arguments::read(arguments)?;
    let refused = |status: rekindle_api::Status| refusal::describe(&status);
    let facts = Facts::ask(&mut client).await.map_err(refused)?;
    let defaults = &mcp.defaults;
    let request = CreateSandboxRequest {
        template: template.unwrap_or_else(|| defaults.template.clone()),
        network: network.unwrap_or_else(|| defaults.network.clone()),
        // What the model asks for is the server's to refuse; what it leaves out is what the server allows.
        ttl: Some(duration(ttl_seconds.map_or_else(|| facts.lifetime(defaults.ttl), Duration::from_secs))),
        idle_timeout: Some(duration(defaults.idle)),
        env: env.into_iter().collect(),
        metadata: [(MARK.0.to_owned(), MARK.1.to_owned())].into(),
        ..CreateSandboxRequest::default()
    };
    let sandbox = match &mcp.session {
        Some(session) => session.create(&mut client, request).await.map_err(refused)?,
        None => client.sandboxes.create(request).await.map_err(refused)?.into_inner(),
    };
    Ok(CallToolResult::success(vec![ContentBlock::text(told(&sandbox, &facts, mcp))]))
}

/// What the model reads: the id, and what it has under it where that is not what the tools say anyway.
fn told(sandbox: &Sandbox, facts: &Facts, mcp: &Mcp) -> String {
    let mut text = format!(
        "sandbox {} | template {} | network {}",
        one_line(&sandbox.id),
        one_line(&sandbox.template),
        one_line(&sandbox.network)
    );
    let left = sandbox.expires_at.and_then(from_timestamp).and_then(|at| {
        let made = sandbox.created_at.and_then(from_timestamp)?;
        at.duration_since(made).ok()
    });
    if let Some(left) = left {
        text.push_str(&format!(
            " | ends in {}",
            span(Duration::from_secs(left.as_secs_f64().round() as u64))
        ));
    }
    if let Some(idle) = sandbox.idle_timeout.and_then(from_duration) {
        text.push_str(&format!(", or after {} without a call", span(idle)));
    }
    let usual = facts.template(&mcp.defaults.template).map(|template| template.name.as_str());
    if let Some(rules) = Rules::of(facts, &sandbox.template, &sandbox.network) {
        if usual != Some(sandbox.template.as_str()) {
            text.push_str(&format!("\n{}\n{}", rules.machine(), rules.installed()));
        }
        text.push_str(&format!("\n{}", rules.network()));
    }
    text
}
