//! `rekindle-bench`: measures, prints, writes the reports. `cargo xtask bench` is the way to call it.

use std::process::ExitCode;

use clap::Parser;
use rekindle_bench::args::Args;
use rekindle_bench::{ablation, run};

fn main() -> ExitCode {
    if let Some(control) = worker() {
        return serve_network(control);
    }
    let args = Args::parse();
    if let Err(error) = rekindle::tuning::read_environment() {
        return failed(&error.into());
    }
    if args.ablate {
        return match ablation::everything(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    // As the service does.
    rekindle::host::allocator::keep_freed_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome =
        runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(run::everything(&args)));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

/// The channel to the one who starts this program as the worker of a network, which the words of `rekindle` say.
fn worker() -> Option<i32> {
    let mut words = std::env::args().skip(1);
    words.next().filter(|word| word == "network-worker")?;
    words.next()?.strip_prefix("--control=")?.parse().ok()
}

/// The worker, with as many threads as `rekindle` gives it.
fn serve_network(control: i32) -> ExitCode {
    rekindle::host::allocator::keep_freed_memory();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| Ok(runtime.block_on(rekindle::network::worker::run(control))?));
    done.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
