//! The words of the commands that talk to a server: `create`, `exec`, `put` and so on. Parsed here, carried out
//! in `cli/remote`.

mod files;
mod model;
mod network;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

pub use self::files::{GetOptions, LsOptions, MkdirOptions, MvOptions, PutOptions};
pub use self::model::{McpOptions, PromptOptions};
pub use self::network::{EgressOptions, NetworkOptions, PortOptions};
use super::{
    CodeOptions, ContextCommand, CreateOptions, PauseOptions, ProgramOptions, TimeoutOptions, UserOptions,
    span, variable,
};

/// What to do on a server.
#[derive(Debug, Subcommand)]
pub enum RemoteCommand {
    /// Create a sandbox and print its id
    Create(On<CreateOptions>),
    /// Run a program in a sandbox
    Exec(On<ExecOptions>),
    /// Show what a detached program prints, until it ends
    Attach(On<AttachOptions>),
    /// List the detached programs of a sandbox
    Jobs(On<OneOptions>),
    /// Send a signal to detached programs
    Kill(On<KillOptions>),
    /// Run code in a sandbox piece by piece; what it defines is there for the next
    Code(On<CodeOptions>),
    /// List, make, begin anew and remove the contexts that `code` runs code in
    #[command(subcommand)]
    Context(ContextCommand),
    /// Copy a file into a sandbox
    Put(On<PutOptions>),
    /// Copy a file, or a directory as a tar archive, out of a sandbox
    Get(On<GetOptions>),
    /// List a directory of a sandbox
    Ls(On<LsOptions>),
    /// Make a directory in a sandbox
    Mkdir(On<MkdirOptions>),
    /// Give a file or a directory of a sandbox another path
    Mv(On<MvOptions>),
    /// Describe data of a sandbox in few words: JSON, JSON Lines, CSV, Parquet, Excel, SQLite, directories
    Describe(On<DescribeOptions>),
    /// List sandboxes
    Ps(On<PsOptions>),
    /// Show everything about a sandbox
    Inspect(On<OneOptions>),
    /// Show every call to a sandbox, or of a trace, with its outcome and cost
    Timeline(On<TimelineOptions>),
    /// Show what a sandbox connects to, and what was denied
    Egress(On<EgressOptions>),
    /// Put a sandbox under another network policy
    Network(On<NetworkOptions>),
    /// Show how to reach a port that a program in a sandbox serves over HTTP
    Port(On<PortOptions>),
    /// Stop a sandbox's processors and its clocks, or end all but its files
    Pause(On<PauseOptions>),
    /// Let a paused sandbox run again
    Resume(On<OneOptions>),
    /// Set how long a sandbox still has
    Timeout(On<TimeoutOptions>),
    /// End sandboxes
    Rm(On<RmOptions>),
    /// Print what happens to sandboxes, or to the files in a directory of one, as it happens
    Watch(On<WatchOptions>),
    /// Show sandboxes, the pool and how full the host is, every second
    Top(On<TopOptions>),
    /// Show how full the host is
    Status(On<JsonOptions>),
    /// Show what tenants have used
    Usage(On<UsageOptions>),
    /// Let a model use sandboxes, as a server of the Model Context Protocol
    Mcp(On<McpOptions>),
    /// Print the rules of a server's sandboxes for a model's system prompt
    Prompt(On<PromptOptions>),
}

/// A command and the server it is for.
#[derive(Debug, Args)]
pub struct On<T: Args> {
    #[command(flatten)]
    pub options: T,
    #[command(flatten)]
    pub server: ServerOptions,
}

/// Which server, and how to be let in.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    /// unix:/PATH or https://HOST:PORT; the socket of this machine's server when left out
    #[arg(long, value_name = "URL", env = "REKINDLE_SERVER")]
    pub server: Option<String>,
    /// The token to show; visible to other users of this machine, so better a variable or a file
    #[arg(long, value_name = "TOKEN", env = "REKINDLE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// A file with the token in it; goes before --token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM of the authority that signed the server's certificate; those of this machine when left out
    #[arg(long, value_name = "FILE", env = "REKINDLE_CA")]
    pub ca: Option<PathBuf>,
    /// PEM of the certificate to show, where the server asks for one
    #[arg(long, value_name = "FILE", env = "REKINDLE_CLIENT_CERT", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// PEM of that certificate's key
    #[arg(long, value_name = "FILE", env = "REKINDLE_CLIENT_KEY", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
    #[command(flatten)]
    pub origin: OriginOptions,
}

/// What the calls are part of, for `timeline --trace`, the audit log, logs and traces.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Trace")]
pub struct OriginOptions {
    /// The trace: its id (32 hexadecimal digits) or a traceparent; TRACEPARENT of the environment when left out
    #[arg(long, value_name = "TRACE")]
    pub trace: Option<String>,
    /// The step of it, such as plan
    #[arg(long, value_name = "NAME", env = "REKINDLE_STEP")]
    pub step: Option<String>,
}

/// Options of `exec`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("program").required(true).args(["python", "node", "sh", "argv"]))]
pub struct ExecOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// Hand standard input on to the program; its output is printed as it comes
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the program a terminal; with -i this one
    #[arg(short, long, conflicts_with_all = ["json", "key"])]
    pub tty: bool,
    /// Run the program once however often this is called with the same key
    #[arg(long, value_name = "KEY", conflicts_with = "stream")]
    pub key: Option<String>,
    /// Leave the program running and print its execution's name, for attach, jobs and kill; without --timeout it
    /// runs as long as the sandbox
    #[arg(short, long, conflicts_with_all = ["key", "stream"])]
    pub detach: bool,
    #[command(flatten)]
    pub program: ProgramOptions,
}

/// Options of `attach`.
#[derive(Debug, Args)]
pub struct AttachOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The execution, such as ex-1
    pub execution: String,
    /// Hand standard input on to the program, if it was started with -i; on its terminal Ctrl-] leaves
    #[arg(short, long)]
    pub interactive: bool,
    /// Leave out what it has printed so far
    #[arg(long)]
    pub from_now: bool,
    /// Print outcome, shortened output and usage as JSON when it has ended, and nothing before
    #[arg(long, conflicts_with_all = ["interactive", "from_now"])]
    pub json: bool,
}

/// Options of `kill`.
#[derive(Debug, Args)]
pub struct KillOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The executions, such as ex-1
    #[arg(required = true)]
    pub executions: Vec<String>,
    /// The signal, by name or number
    #[arg(short, long, default_value = "TERM", value_parser = signal)]
    pub signal: u32,
    /// To every process of the execution instead of its first one
    #[arg(long)]
    pub everyone: bool,
}

/// Options of `describe`.
#[derive(Debug, Args)]
pub struct DescribeOptions {
    /// The sandbox
    pub sandbox: String,
    /// Files and directories; of several it is also said by which columns they may belong together
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Most characters of the text
    #[arg(long, value_name = "N", default_value_t = 4000, conflicts_with = "json")]
    pub max_chars: u32,
    /// Also write a Python program to this path of the sandbox that loads the data, such as load_data.py
    #[arg(long, value_name = "PATH")]
    pub load_data: Option<OsString>,
    /// How long it may take, in seconds or such as 10m; 2 minutes when left out
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `ps`.
#[derive(Debug, Args)]
pub struct PsOptions {
    /// Also those that have ended
    #[arg(short, long)]
    pub all: bool,
    /// Only those with this word about them; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub meta: Vec<(String, String)>,
    /// Print ids only
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// One sandbox, for people or programs.
#[derive(Debug, Args)]
pub struct OneOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `timeline`.
#[derive(Debug, Args)]
pub struct TimelineOptions {
    /// The sandbox: its id, or as much of it as no other begins with; all sandboxes with --trace
    #[arg(required_unless_present = "trace")]
    pub sandbox: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `rm`.
#[derive(Debug, Args)]
pub struct RmOptions {
    /// The sandboxes
    #[arg(required_unless_present = "all")]
    pub sandboxes: Vec<String>,
    /// Every sandbox of the tenant
    #[arg(long, conflicts_with = "sandboxes")]
    pub all: bool,
}

/// Options of `watch`.
#[derive(Debug, Args)]
pub struct WatchOptions {
    /// Only this sandbox
    pub sandbox: Option<String>,
    /// In place of what happens to the sandbox: what happens to the files of this directory of it
    pub path: Option<OsString>,
    /// Only sandboxes with this word about them; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable, conflicts_with = "path")]
    pub meta: Vec<(String, String)>,
    /// Begin with the sandboxes that are there
    #[arg(long, conflicts_with = "path")]
    pub existing: bool,
    /// Also everything below the directories of PATH
    #[arg(short, long, requires = "path")]
    pub recursive: bool,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    /// Print one screen and end, as when standard output is no terminal
    #[arg(long)]
    pub once: bool,
}

/// Options of `usage`.
#[derive(Debug, Args)]
pub struct UsageOptions {
    /// Only this tenant
    #[arg(long, default_value = "", hide_default_value = true)]
    pub tenant: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// For people or programs.
#[derive(Debug, Args)]
pub struct JsonOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Signals by name; Linux has the same numbers on every processor that Rekindle runs on.
const SIGNALS: [(&str, u32); 11] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("WINCH", 28),
];

/// `TERM`, `SIGTERM` or `15`.
fn signal(text: &str) -> Result<u32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let named = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let numbered = || name.parse().ok().filter(|number| (1..=64).contains(number));
    named.or_else(numbered).ok_or_else(|| "a signal is needed, such as TERM, KILL or 15".into())
}

#[cfg(test)]
mod tests;
