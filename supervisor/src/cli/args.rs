//! The words of the command line, as types.

mod clock;
mod code;
mod life;
mod remote;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use rekindle::agent::{GuestPath, GuestUser, UnknownUser};
use rekindle::config::{TemplateName, amount};
use rekindle::engine::detect::EngineChoice;
use rekindle::host::cgroup::CpuQuota;

pub use self::clock::*;
pub use self::code::*;
pub use self::life::*;
pub use self::remote::*;
use super::cassette::CassetteCommand;
use super::completions::ShellName;
use super::config::{ConfigCommand, ConfigOptions};
use super::host_setup::SetupOptions;
use super::token::TokenCommand;

/// The longest time that can be asked for; what is allowed is the server's to say.
const LONGEST: f64 = 366.0 * 86_400.0;
const NO_TIME: &str = "a time is needed, in seconds or such as 90s, 10m or 2h, of at most a year";

/// Sandboxes for coding agents: microVMs restored from pre-warmed snapshots.
#[derive(Debug, Parser)]
#[command(name = "rekindle", version, propagate_version = true)]
pub struct Arguments {
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do. `help.rs` groups them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Restore a sandbox, run one program in it, print its output, destroy it
    Run(Box<RunOptions>),
    /// Show what was found on this machine and whether a sandbox can run
    Doctor(DoctorOptions),
    #[command(flatten)]
    Remote(Box<RemoteCommand>),
    /// Serve sandboxes over gRPC until told to stop
    Serve(Box<ServeOptions>),
    /// List, build, verify and remove the snapshots of templates
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Make, list and remove the tokens callers show
    #[command(subcommand)]
    Token(TokenCommand),
    /// List, show and remove recorded network exchanges
    #[command(subcommand)]
    Cassette(CassetteCommand),
    /// Check the configuration of the service, or print its reference
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Fetch and check the Firecracker release for this host, and show what else is missing
    Setup(SetupOptions),
    /// Write the manual pages
    #[command(hide = true)]
    Man {
        /// Where to
        dir: PathBuf,
    },
    /// Serve the connections of sandboxes; started by `serve` and `run` themselves
    #[command(hide = true)]
    NetworkWorker {
        /// The descriptor of the channel to the supervisor
        #[arg(long)]
        control: i32,
    },
    /// Print a script that completes this command line in a shell
    Completions {
        /// The shell
        shell: ShellName,
    },
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeOptions {
    #[command(flatten)]
    pub config: ConfigOptions,
    /// Which virtual machine monitor to use instead of the configured one: auto, firecracker or qemu
    #[arg(long, env = "REKINDLE_ENGINE", value_parser = engine)]
    pub engine: Option<EngineChoice>,
    /// Development only: run Firecracker without its jailer, as this user and with a view of all files
    #[arg(long)]
    pub no_jail: bool,
}

/// What every command that starts machines takes.
#[derive(Debug, Clone, Args)]
pub struct MachineOptions {
    /// Which virtual machine monitor to use: auto, firecracker or qemu
    #[arg(long, env = "REKINDLE_ENGINE", default_value = "auto", value_parser = engine)]
    pub engine: EngineChoice,
    /// Development only: run Firecracker without its jailer, as this user and with a view of all files
    #[arg(long)]
    pub no_jail: bool,
    /// Refuse to run when a limit cannot be enforced on this machine
    #[arg(long)]
    pub require_limits: bool,
}

/// A program and how it is run, here or on a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Program")]
pub struct ProgramOptions {
    /// Python source to run
    #[arg(long, value_name = "CODE")]
    pub python: Option<String>,
    /// JavaScript source to run with Node
    #[arg(long, value_name = "CODE")]
    pub node: Option<String>,
    /// A line for the shell
    #[arg(long, value_name = "CMD")]
    pub sh: Option<String>,
    /// A program of the sandbox and its arguments
    #[arg(last = true)]
    pub argv: Vec<String>,
    /// Wall-clock limit of the program, in seconds or such as 10m; 60 s, or what the server says, when left out
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub timeout: Option<Duration>,
    /// Memory of the program, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Working directory in the sandbox
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true)]
    pub cwd: String,
    #[command(flatten)]
    pub user: UserOptions,
    /// A variable of the program's environment; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    #[command(flatten)]
    pub clock: ClockOptions,
    /// Characters of each output stream that are shown; 4000 when left out
    #[arg(long, value_name = "CHARS", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub output_limit: Option<u32>,
    /// Print all output as it comes instead of a shortened text at the end
    #[arg(long, conflicts_with = "json")]
    pub stream: bool,
    /// Start an interpreter for --python or --node instead of using a warm one
    #[arg(long)]
    pub plain: bool,
    /// Print outcome, output and usage as JSON
    #[arg(long)]
    pub json: bool,
}

/// As whom something is done in a sandbox.
#[derive(Debug, Clone, Default, Args)]
pub struct UserOptions {
    /// As whom in the sandbox: user, or root where template and token allow it
    #[arg(id = "user", long = "user", value_name = "USER", default_value = "user", hide_default_value = true, value_parser = guest_user)]
    pub name: GuestUser,
}

fn guest_user(name: &str) -> Result<GuestUser, UnknownUser> {
    GuestUser::named(name)
}

/// Options of `run`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("program").required(true).args(["python", "node", "sh", "file", "argv"]))]
#[command(group = clap::ArgGroup::new("reach").multiple(true).args(["network", "gateway"]))]
pub struct RunOptions {
    /// A local .py, .js, .mjs, .cjs or .sh file to copy in and run
    pub file: Option<PathBuf>,
    /// The template to restore; python-node where its image is there, else minimal, when left out
    #[arg(long, value_parser = template_name)]
    pub template: Option<TemplateName>,
    /// Share of the machine's processors, such as 0.5 or 2
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub cpus: Option<CpuQuota>,
    /// Copy a file into the sandbox before the program runs; repeatable
    #[arg(long, value_name = "LOCAL:GUEST", value_parser = put)]
    pub put: Vec<(PathBuf, GuestPath)>,
    /// Copy a file, or a directory as a tar archive, out of the sandbox afterwards; repeatable
    #[arg(long, value_name = "GUEST:LOCAL", value_parser = get)]
    pub get: Vec<(GuestPath, PathBuf)>,
    /// The network policy, by its name in the configuration; no network when left out
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// An operation of the gateway that the program may call, such as openai/chat, or openai/* for all of a service;
    /// repeatable
    #[arg(long = "gateway", value_name = "SERVICE/OPERATION,…", value_delimiter = ',')]
    pub gateway: Vec<String>,
    /// The configuration file that --network and --gateway are found in (also REKINDLE_CONFIG)
    #[arg(long, value_name = "FILE", requires = "reach")]
    pub config: Option<PathBuf>,
    /// Boot the machine instead of restoring its snapshot, to see what the snapshot saves
    #[arg(long)]
    pub cold: bool,
    #[command(flatten)]
    pub machine: MachineOptions,
    #[command(flatten)]
    pub program: ProgramOptions,
}

/// The commands about templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// List templates and their snapshots; with --server those of a server
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: Box<ServerOptions>,
    },
    /// Boot, warm up and snapshot a template
    Build {
        /// The template
        #[arg(value_parser = template_name)]
        template: TemplateName,
        #[command(flatten)]
        machine: MachineOptions,
        /// Build even when a snapshot that fits is there
        #[arg(long)]
        force: bool,
    },
    /// Check every byte of a template's snapshots
    Verify {
        /// The template; all when left out
        #[arg(value_parser = template_name)]
        template: Option<TemplateName>,
    },
    /// Remove a template's snapshots
    Rm {
        /// The template
        #[arg(value_parser = template_name, required_unless_present = "unused")]
        template: Option<TemplateName>,
        /// Remove every snapshot that no current recipe, kernel and image would use
        #[arg(long, conflicts_with = "template")]
        unused: bool,
        #[command(flatten)]
        machine: MachineOptions,
    },
}

fn engine(text: &str) -> Result<EngineChoice, String> {
    text.parse()
}

fn template_name(text: &str) -> Result<TemplateName, String> {
    text.parse().map_err(|error: rekindle::config::InvalidTemplate| error.to_string())
}

/// `90`, `1.5`, `90s`, `10m`, `2h` or `1d`, and not nothing.
fn span(text: &str) -> Result<Duration, String> {
    span_or_none(text).and_then(|span| if span.is_zero() { Err(NO_TIME.into()) } else { Ok(span) })
}

/// The same, or nothing: `0` or `none`.
fn span_or_none(text: &str) -> Result<Duration, String> {
    match amount::seconds(text) {
        _ if text == "none" => Ok(Duration::ZERO),
        Some(0.0) => Ok(Duration::ZERO),
        Some(seconds) if (0.001..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(NO_TIME.into()),
    }
}

pub fn cpus(text: &str) -> Result<CpuQuota, String> {
    match text.parse::<f64>() {
        // The range keeps the conversion exact.
        Ok(cpus) if (0.05..=1024.0).contains(&cpus) => {
            Ok(CpuQuota { millis: (cpus * 1000.0).round() as u32 })
        }
        _ => Err("a number between 0.05 and 1024 is needed".into()),
    }
}

/// `512M`, `1.5G`, `65536k` or plain bytes, and at least what a program needs.
fn size(text: &str) -> Result<u64, String> {
    match any_size(text)? {
        bytes if bytes >= 4 * 1024 * 1024 => Ok(bytes),
        _ => Err("a program needs at least 4M".into()),
    }
}

/// `512M`, `1.5G`, `65536k` or plain bytes.
pub fn any_size(text: &str) -> Result<u64, String> {
    amount::bytes(text).ok_or_else(|| "a size such as 256M or 1.5G is needed".into())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE is needed, such as LANG=C.UTF-8".into()),
    }
}

fn put(text: &str) -> Result<(PathBuf, GuestPath), String> {
    let (local, guest) = split(text, "LOCAL:GUEST", "data.csv:input/data.csv")?;
    Ok((local.into(), guest_path(guest)?))
}

fn get(text: &str) -> Result<(GuestPath, PathBuf), String> {
    let (guest, local) = split(text, "GUEST:LOCAL", "output/plot.png:plot.png")?;
    Ok((guest_path(guest)?, local.into()))
}

fn split<'a>(text: &'a str, form: &str, example: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once(':') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from, to)),
        _ => Err(format!("{form} is needed, such as {example}")),
    }
}

fn guest_path(text: &str) -> Result<GuestPath, String> {
    GuestPath::new(text.as_bytes().to_vec()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    //! Words that are taken and words that are not.

    use super::*;

    fn parse(words: &[&str]) -> Result<RunOptions, String> {
        let words = ["rekindle", "run"].iter().chain(words);
        match Arguments::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Run(options) => Ok(*options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exactly_one_program_is_needed() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["--python", "1", "--node", "2"]).is_err());
        assert!(parse(&["--python", "1", "--", "ls"]).is_err());
        assert_eq!(parse(&["--", "ls", "-l"]).expect("right").program.argv, ["ls", "-l"]);
        assert_eq!(parse(&["job.py"]).expect("right").file, Some("job.py".into()));
    }

    #[test]
    fn a_time_is_nothing_only_where_that_means_something() {
        assert_eq!(span("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("2h"), Ok(Duration::from_secs(7_200)));
        assert_eq!(span("1d"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "0", "none", "0.0001", "-1", "m", "NaN", "inf", "1e300", "5 m", "400d", "10é"] {
            assert!(span(wrong).is_err(), "{wrong:?}");
        }
        for nothing in ["0", "0s", "none"] {
            assert_eq!(span_or_none(nothing), Ok(Duration::ZERO));
        }
        assert!(span_or_none("nothing").is_err());
    }

    #[test]
    fn sizes_shares_and_times_are_checked() {
        let right =
            parse(&["--memory", "256M", "--cpus", "0.5", "--timeout", "1.5m", "--sh", "x"]).expect("right");
        assert_eq!(right.program.memory, Some(256 * 1024 * 1024));
        assert_eq!(right.cpus, Some(CpuQuota { millis: 500 }));
        assert_eq!(right.program.timeout, Some(Duration::from_secs(90)));
        for wrong in [
            ["--memory", "12X"],
            ["--memory", "1k"],
            ["--memory", "99999999999999G"],
            ["--cpus", "0"],
            ["--cpus", "NaN"],
            ["--timeout", "0"],
            ["--timeout", "-1"],
            ["--timeout", "inf"],
            ["--env", "=x"],
            ["--put", "a"],
            ["--get", ":b"],
            ["--engine", "bochs"],
            ["--template", "../etc"],
        ] {
            assert!(parse(&[wrong[0], wrong[1], "--sh", "x"]).is_err(), "{wrong:?}");
        }
    }
}
