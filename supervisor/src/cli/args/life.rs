//! The words of the commands about how long a sandbox lives: `create`, `pause` and `timeout`. Carried out in `cli/remote`.

use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use rekindle::host::cgroup::CpuQuota;

use super::{cpus, size, span, span_or_none, variable};

/// What happens to a sandbox whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnTimeoutName {
    /// It is destroyed
    Destroy,
    /// It is paused until it is resumed
    Pause,
    /// It is paused until it is resumed, or used
    PauseUntilUsed,
    /// It is paused without its memory until it is resumed
    PauseWithoutMemory,
}

/// Options of `pause`.
#[derive(Debug, Args)]
pub struct PauseOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// Keep its files alone: its programs end, its memory is the host's again, and `resume` boots it
    #[arg(long)]
    pub without_memory: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `create`.
#[derive(Debug, Args)]
pub struct CreateOptions {
    /// The template; the server's default when left out
    #[arg(long, default_value = "", hide_default_value = true)]
    pub template: String,
    /// How long it lives, in seconds or such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub ttl: Option<Duration>,
    /// How long it may go without a call; none for ever
    #[arg(long, value_name = "TIME", value_parser = span_or_none)]
    pub idle: Option<Duration>,
    /// What happens when its time is over: destroy when left out
    #[arg(long, value_name = "WHAT", value_enum)]
    pub on_timeout: Option<OnTimeoutName>,
    /// Share of the host's processors, such as 0.5 or 2
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub cpus: Option<CpuQuota>,
    /// Memory of all programs in it, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Processes and threads at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pids: Option<u32>,
    /// A variable every program sees; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// A word of your own about it; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub meta: Vec<(String, String)>,
    /// How long to wait for room when the host is full; 0 not at all
    #[arg(long, value_name = "TIME", value_parser = span_or_none)]
    pub wait: Option<Duration>,
    /// The network policy, by the name the operator gave it; no network when left out
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub network: String,
    /// An operation of the gateway that its programs may call, such as openai/chat, or openai/* for all of a service;
    /// repeatable
    #[arg(long = "gateway", value_name = "SERVICE/OPERATION,…", value_delimiter = ',')]
    pub gateway: Vec<String>,
    /// What they may spend at the gateway, in the operator's units
    #[arg(long, value_name = "COST", requires = "gateway")]
    pub gateway_budget: Option<u64>,
    /// How many executions may be started in it; any number when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,
    /// Where in it the result is to be: `inspect` says whether it is there
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub result_path: String,
    /// Create one sandbox however often this is called with the same id
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub request_id: String,
    /// Print the sandbox as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `timeout`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["ttl", "idle", "on_timeout"]))]
pub struct TimeoutOptions {
    /// The sandbox
    pub sandbox: String,
    /// How long it still lives from now on, in seconds or such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub ttl: Option<Duration>,
    /// How long it may go without a call; none for ever
    #[arg(long, value_name = "TIME", value_parser = span_or_none)]
    pub idle: Option<Duration>,
    /// What happens when its time is over
    #[arg(long, value_name = "WHAT", value_enum)]
    pub on_timeout: Option<OnTimeoutName>,
    /// Print the sandbox as JSON
    #[arg(long)]
    pub json: bool,
}
