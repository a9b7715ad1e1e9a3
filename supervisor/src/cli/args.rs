//! The words of the command line, as types.

mod remote;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use rekindle::agent::GuestPath;
use rekindle::config::TemplateName;
use rekindle::engine::detect::EngineChoice;
use rekindle::host::cgroup::CpuQuota;

pub use self::remote::*;
use super::completions::ShellName;
use super::config::{ConfigCommand, ConfigOptions};
use super::token::TokenCommand;

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

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print a script that completes this command line in a shell
    Completions {
        /// The shell
        shell: ShellName,
    },
    /// Check the configuration of the service, or print its reference
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show what was found on this machine and whether a sandbox can run
    Doctor(DoctorOptions),
    /// Restore a sandbox, run one program in it, print its output, destroy it
    Run(Box<RunOptions>),
    /// List, build, verify and remove the snapshots of templates
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Serve sandboxes over gRPC until told to stop
    Serve(Box<ServeOptions>),
    /// Make, list and remove the tokens callers show
    #[command(subcommand)]
    Token(TokenCommand),
    #[command(flatten)]
    Remote(Box<RemoteCommand>),
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

/// Options of `run`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("program").required(true).args(["python", "node", "sh", "file", "argv"]))]
pub struct RunOptions {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// The template to restore
    #[arg(long, default_value = "python-node", value_parser = template_name)]
    pub template: TemplateName,
    /// Wall-clock limit of the program in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
    /// Share of the machine's processors, such as 0.5 or 2
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub cpus: Option<CpuQuota>,
    /// Memory of the program, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// A variable of the program's environment; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Copy a file into the sandbox before the program runs; repeatable
    #[arg(long, value_name = "LOCAL:GUEST", value_parser = put)]
    pub put: Vec<(PathBuf, GuestPath)>,
    /// Copy a file, or a directory as a tar archive, out of the sandbox afterwards; repeatable
    #[arg(long, value_name = "GUEST:LOCAL", value_parser = get)]
    pub get: Vec<(GuestPath, PathBuf)>,
    /// Characters of each output stream that are shown
    #[arg(long, value_name = "CHARS", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub output_limit: u32,
    /// Print all output as it comes instead of a shortened text at the end
    #[arg(long, conflicts_with = "json")]
    pub stream: bool,
    /// Print outcome, output, usage and timings as JSON
    #[arg(long)]
    pub json: bool,
    /// Boot the machine instead of restoring its snapshot, to see what the snapshot saves
    #[arg(long)]
    pub cold: bool,
    /// Start an interpreter for --python or --node instead of using a warm one, to see what that saves
    #[arg(long)]
    pub plain: bool,
    /// Python source to run
    #[arg(long, value_name = "CODE")]
    pub python: Option<String>,
    /// JavaScript source to run with Node
    #[arg(long, value_name = "CODE")]
    pub node: Option<String>,
    /// A line for the shell
    #[arg(long, value_name = "CMD")]
    pub sh: Option<String>,
    /// A local .py, .js, .mjs, .cjs or .sh file to copy in and run
    pub file: Option<PathBuf>,
    /// A program of the sandbox and its arguments
    #[arg(last = true)]
    pub argv: Vec<String>,
}

/// The commands about templates.
#[derive(Debug, Subcommand)]
pub enum TemplateCommand {
    /// List templates and their snapshots
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
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

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number of seconds between 0 and 86400 is needed".into()),
    }
}

fn cpus(text: &str) -> Result<CpuQuota, String> {
    match text.parse::<f64>() {
        // The range keeps the conversion exact.
        Ok(cpus) if (0.05..=1024.0).contains(&cpus) => {
            Ok(CpuQuota { millis: (cpus * 1000.0).round() as u32 })
        }
        _ => Err("a number between 0.05 and 1024 is needed".into()),
    }
}

/// `512M`, `1G`, `65536k` or plain bytes.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1024,
        "m" | "mb" | "mib" => 1024 * 1024,
        "g" | "gb" | "gib" => 1024 * 1024 * 1024,
        _ => return Err("a size such as 256M or 1G is needed".into()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if bytes >= 4 * 1024 * 1024 => Ok(bytes),
        Some(_) => Err("a program needs at least 4M".into()),
        None => Err("a size such as 256M or 1G is needed".into()),
    }
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
        assert_eq!(parse(&["--", "ls", "-l"]).expect("right").argv, ["ls", "-l"]);
        assert_eq!(parse(&["job.py"]).expect("right").file, Some("job.py".into()));
    }

    #[test]
    fn sizes_shares_and_times_are_checked() {
        let right =
            parse(&["--memory", "256M", "--cpus", "0.5", "--timeout", "1.5", "--sh", "x"]).expect("right");
        assert_eq!(right.memory, Some(256 * 1024 * 1024));
        assert_eq!(right.cpus, Some(CpuQuota { millis: 500 }));
        assert_eq!(right.timeout, Duration::from_millis(1500));
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
