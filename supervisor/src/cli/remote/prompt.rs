//! `rekindle prompt`: the rules of a server's sandboxes for a model's system prompt, from where the descriptions of the
//! tools of `rekindle mcp` come from too.

use rekindle::mcp::{Facts, Rules};
use rekindle_api::client::Client;

use super::{escape, print, refusal};
use crate::cli::args::PromptOptions;

/// Runs the command.
pub async fn prompt(mut client: Client, options: &PromptOptions) -> anyhow::Result<u8> {
    let facts = Facts::ask(&mut client).await.map_err(refusal::refused)?;
    let rules = Rules::of(&facts, &options.template, &options.network);
    let rules = rules.ok_or_else(|| no_template(&facts, &options.template))?;
    print::text(&rules.prompt())?;
    Ok(0)
}

/// The error for a template that is not there.
pub(super) fn no_template(facts: &Facts, name: &str) -> anyhow::Error {
    let names: Vec<String> = facts.templates.iter().map(|template| escape::text(&template.name)).collect();
    let hint = if names.is_empty() { "none on this server".to_owned() } else { names.join(", ") };
    match name {
        "" => anyhow::anyhow!("the server has no default template\nhint: name one with --template: {hint}"),
        name => anyhow::anyhow!("there is no template named {name:?}\nhint: there are: {hint}"),
    }
}
