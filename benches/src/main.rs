//! `rekindle-bench`: measures, prints, writes the reports. `cargo xtask bench` is the way to call it.

use std::process::ExitCode;

use clap::Parser;
use rekindle_bench::args::Args;
use rekindle_bench::{ablation, run};

fn main() -> ExitCode {
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

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
