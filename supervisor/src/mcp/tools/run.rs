//! `sandbox_run`: runs shell lines or code in a sandbox. Whatever its exit code is, it is a result.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::time::{duration, from_duration};
use rekindle_api::v1::program::Program as What;
use rekindle_api::v1::{Code, ExecuteRequest, Language, Program};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::json;

use crate::mcp::facts::Facts;
use crate::mcp::rules::Rules;
use crate::mcp::{arguments, outcome, refusal};

pub(super) const NAME: &str = "sandbox_run";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    sandbox: String,
    code: String,
    #[serde(default)]
    language: Spoken,
    timeout_seconds: Option<f64>,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Spoken {
    #[default]
    Bash,
    Python,
    Node,
}

impl From<Spoken> for Language {
    fn from(spoken: Spoken) -> Self {
        match spoken {
            Spoken::Bash => Self::Bash,
            Spoken::Python => Self::Python,
            Spoken::Node => Self::Node,
        }
    }
}

pub(super) fn tool(facts: &Facts, rules: Option<&Rules<'_>>) -> Tool {
    let mut text = "Runs a bash script, or Python or JavaScript code, in a sandbox and waits for its end. The first line \
                    of the result says how it ended, how long it took and whether output was cut; stdout and stderr \
                    follow. A non-zero exit is a result like any other: read stderr, repair and run again."
        .to_owned();
    if let Some(rules) = rules {
        for sentence in [
            rules.process(),
            rules.output(),
            "Read that file with sandbox_read (offset, limit), or search it with grep in another run."
                .to_owned(),
            rules.time_limit(),
            rules.network(),
            rules.installed(),
            rules.files(),
            rules.ids(),
        ] {
            text.push(' ');
            text.push_str(&sentence);
        }
    }
    let most = facts.rules.max_execute_timeout.and_then(from_duration).unwrap_or(Duration::from_secs(3_600));
    let properties = json!({
        "sandbox": super::sandbox_argument(),
        "code": {
            "type": "string",
            "description": "The script or the code, as many lines as needed. Print what you want to see: the value of a \
                            last expression is not shown.",
        },
        "language": {
            "type": "string", "enum": ["bash", "python", "node"], "default": "bash",
            "description": "What `code` is written in.",
        },
        "timeout_seconds": {
            "type": "number", "exclusiveMinimum": 0, "maximum": most.as_secs_f64(),
            "description": "How long it may take.",
        },
        "cwd": {"type": "string", "description": "Where it starts; the home directory when left out."},
        "env": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Environment variables for this run only.",
        },
        "stdin": {"type": "string", "description": "Text on its standard input; empty when left out."},
    });
    let annotations = ToolAnnotations::with_title("Run in a sandbox").read_only(false).destructive(true);
    super::tool(NAME, text, &properties, &["sandbox", "code"], annotations)
}

pub(super) async fn call(
    mut client: Client,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, String> {
    let Arguments { sandbox, code, language, timeout_seconds, cwd, env, stdin } = arguments::read(arguments)?;
    let timeout = timeout_seconds.map(|seconds| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            "refused: INVALID_ARGUMENTS: timeout_seconds is no time\nhint: use a number of seconds above 0".to_owned()
        })
    });
    let code = Code { language: Language::from(language).into(), source: code, plain_interpreter: false };
    let request = ExecuteRequest {
        sandbox,
        program: Some(Program { program: Some(What::Code(code)) }),
        stdin: Bytes::from(stdin),
        env: env.into_iter().collect(),
        cwd,
        timeout: timeout.transpose()?.map(duration),
        ..ExecuteRequest::default()
    };
    let response = client.sandboxes.execute(request).await.map_err(|status| refusal::describe(&status))?;
    Ok(CallToolResult::success(vec![ContentBlock::text(outcome::text(response.get_ref()))]))
}
