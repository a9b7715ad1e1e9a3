//! The commands of `rekindle`, one file each. Results go to standard output, everything else to standard
//! error; a failure of our own ends with code 125 and, where something can be done, a `hint:`.

mod args;
mod cassette;
mod completions;
mod config;
mod doctor;
mod execution;
mod failure;
mod help;
mod host_setup;
mod interrupt;
mod man;
mod network;
mod progress;
mod remote;
mod run;
mod serve;
mod serve_files;
mod serve_http;
mod service_manager;
mod setup;
mod stages;
mod template;
mod token;

use std::process::ExitCode;

use self::args::Command;

/// What our own failures exit with; the program's own codes pass through beside it.
pub const OWN_FAILURE: u8 = 125;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = match help::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let help = !error.use_stderr();
            let _ = error.print();
            return if help { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) };
        }
    };
    if let Err(error) = rekindle::tuning::read_environment() {
        return failure::report(&anyhow::Error::new(error));
    }
    rekindle::host::allocator::keep_freed_memory();
    // A service has a log of its own, and as many threads as the host has cores; a command needs few.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !matches!(arguments.command, Command::Serve(_)) {
        init_logging(arguments.verbose);
    }
    if !matches!(arguments.command, Command::Serve(_) | Command::NetworkWorker { .. }) {
        builder.worker_threads(2);
    }
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::report(&anyhow::Error::new(error).context("no runtime")),
    };
    let done = runtime.block_on(async {
        match arguments.command {
            Command::Cassette(command) => cassette::cassette(&command),
            Command::Completions { shell } => completions::completions(shell),
            Command::Config(command) => config::config(&command),
            Command::Doctor(options) => doctor::doctor(&options).await,
            Command::Man { dir } => man::man(&dir),
            Command::NetworkWorker { control } => network::worker(control).await,
            Command::Run(options) => run::run(*options).await,
            Command::Serve(options) => serve::serve(*options).await,
            Command::Setup(options) => host_setup::setup(options).await,
            Command::Template(command) => template::template(command).await,
            Command::Token(command) => token::token(command),
            Command::Remote(command) => remote::remote(*command).await,
        }
    });
    // Nothing that still waits in the background may hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => failure::report(&error),
    }
}

/// Warnings and errors by default; `-v` shows more, `REKINDLE_LOG` decides in detail.
fn init_logging(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("REKINDLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        // Whoever started this may have closed its standard error, and that would be told there too: a panic.
        .log_internal_errors(false)
        .init();
}
