//! The words of `mcp` and `prompt`: what a model is given of a server.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::super::{span, span_or_none};

/// Options of `mcp`.
#[derive(Debug, Args)]
pub struct McpOptions {
    /// The template sandboxes are made from when the model names none; the server's default when left out
    #[arg(long, default_value = "", hide_default_value = true)]
    pub template: String,
    /// The network policy of sandboxes when the model names none; no network when left out
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub network: String,
    /// How long a sandbox lives, in seconds or such as 10m, where the server allows it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = span)]
    pub ttl: Duration,
    /// How long it may go without a call; none for ever
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = span_or_none)]
    pub idle: Duration,
    /// Serve streamable HTTP at this address, at the path /mcp, instead of standard input and output
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// A name by which callers reach it, beside localhost; repeatable
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub host: Vec<String>,
    /// An origin of web pages that may call, such as https://app.example.com:443; repeatable
    #[arg(long, value_name = "URL", requires = "listen")]
    pub origin: Vec<String>,
    /// Serve callers without a token too, with the rights this command has
    #[arg(long, requires = "listen")]
    pub anonymous: bool,
}

/// Options of `prompt`.
#[derive(Debug, Args)]
pub struct PromptOptions {
    /// The template; the server's default when left out
    #[arg(long, default_value = "", hide_default_value = true)]
    pub template: String,
    /// The network policy; no network when left out
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub network: String,
}
