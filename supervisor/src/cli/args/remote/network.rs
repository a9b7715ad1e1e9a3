//! Words of the commands about a sandbox's network and its ports.

use std::num::NonZero;

use clap::Args;

/// Options of `egress`.
#[derive(Debug, Args)]
pub struct EgressOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// Go on with what comes, until the sandbox ends
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON, one line for each
    #[arg(long)]
    pub json: bool,
}

/// Options of `network`.
#[derive(Debug, Args)]
pub struct NetworkOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The policy, by the name the operator gave it, or none
    pub policy: String,
    /// Print the sandbox as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `port`.
#[derive(Debug, Args)]
pub struct PortOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The port, 1 to 65535
    pub port: NonZero<u16>,
    /// Print URL and headers as JSON
    #[arg(long)]
    pub json: bool,
}
