//! `rekindle mcp`: the server of the Model Context Protocol, for one client over standard input and output, or for any
//! number over HTTP.

use anyhow::bail;
use rekindle::mcp::{Access, Defaults, Facts, HttpOptions, Mcp, serve_http, serve_stdio};
use rekindle_api::client::Connection;

use super::{prompt, refusal};
use crate::cli::args::McpOptions;
use crate::cli::interrupt::interrupted;

/// Runs the command.
pub async fn mcp(server: (Connection, Option<String>), options: McpOptions) -> anyhow::Result<u8> {
    let (connection, token) = server;
    let McpOptions { template, network, ttl, idle, listen, host, origin, anonymous } = options;
    let defaults = Defaults { template, network, ttl, idle };
    let shutdown = async {
        interrupted(true).await;
    };
    let Some(listen) = listen else {
        let mut client = connection.client(token.as_deref())?;
        // A mistake of the command line is told now, to whoever made it, and not to a model later.
        let facts = Facts::ask(&mut client).await.map_err(refusal::refused)?;
        check(&facts, &defaults)?;
        let mcp = Mcp::new(connection, Access::Own(token), defaults);
        serve_stdio(mcp, tokio::io::stdin(), tokio::io::stdout(), shutdown).await?;
        return Ok(0);
    };
    let access = Access::Caller { otherwise: anonymous.then_some(token) };
    let mcp = Mcp::new(connection, access, defaults);
    let listening =
        |address| eprintln!("rekindle: the Model Context Protocol is served at http://{address}/mcp");
    serve_http(mcp, HttpOptions { listen, hosts: host, origins: origin }, listening, shutdown).await?;
    Ok(0)
}

fn check(facts: &Facts, defaults: &Defaults) -> anyhow::Result<()> {
    if facts.template(&defaults.template).is_none() {
        return Err(prompt::no_template(facts, &defaults.template));
    }
    let network = defaults.network.as_str();
    if !matches!(network, "" | "none") && facts.network(network).is_none() {
        let names: Vec<&str> = facts.networks.iter().map(|policy| policy.name.as_str()).collect();
        let hint = if names.is_empty() { "none but `none`".to_owned() } else { names.join(", ") };
        bail!("there is no network policy named {network:?} for this caller\nhint: there are {hint}");
    }
    Ok(())
}
