//! `cargo xtask`: every developer command of the workspace, one file per verb.
//!
//! Builds what goes into a guest (agent, kernel, root images), installs what that needs,
//! and runs the checks that CI runs. Nothing here ships to a user.
#![forbid(unsafe_code)]

mod agent;
mod bench;
mod build;
mod cache;
mod ci;
mod clean;
mod compat;
mod demo;
mod dist;
mod docs;
mod download;
mod fuzz;
mod hash;
mod hint;
mod hygiene;
mod job;
mod kernel;
mod lab;
mod mutants;
mod recipe;
mod registry;
mod remap;
mod repo;
mod rootfs;
mod setup;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of the Rekindle workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install missing system packages (as root) and find or download Firecracker
    Setup(setup::Args),
    /// Build the guest kernel
    Kernel,
    /// Build one root image, or all of them
    Rootfs(rootfs::Args),
    /// Build the guest agent, static and small
    Agent,
    /// Build everything a guest needs: agent, kernel, all root images
    Build,
    /// Remove old builds and leftovers from the cache
    Clean(clean::Args),
    /// Make packages: a tarball, Debian packages, their hashes and a bill of materials
    Dist(dist::Args),
    /// Show what Rekindle does, from nothing to a table on the screen
    Demo,
    /// Write the pages that are made from something else: the API and the configuration
    Docs,
    /// Measure starts, executions, transfers and memory, and write a report
    Bench(bench::Args),
    /// The lab: a machine with working KVM, for the Firecracker tests
    #[command(subcommand)]
    Lab(lab::Args),
    /// Check the rules of the codebase that a machine can check
    Tidy,
    /// Run every check and test, and end with one line of counts
    Test(test::Args),
    /// Plant the bugs of tests/mutants.toml, and see whether a test finds each
    Mutants(mutants::Args),
    /// Run the official tests of E2B's Python SDK against a server of this checkout
    Compat(compat::Args),
    /// Run the fuzz targets for a while
    Fuzz(fuzz::Args),
    /// Use one service for long, while its machines are killed at random
    Soak(soak::Args),
    /// Exactly what CI runs
    Ci,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Setup(args) => setup::run(&args),
        Verb::Kernel => kernel::run(),
        Verb::Rootfs(args) => rootfs::run(&args),
        Verb::Agent => agent::run(),
        Verb::Build => build::run(),
        Verb::Clean(args) => clean::run(&args),
        Verb::Dist(args) => dist::run(&args),
        Verb::Demo => demo::run(),
        Verb::Docs => docs::run(),
        Verb::Bench(args) => return bench::run(&args).unwrap_or_else(|error| fail(&error)),
        Verb::Lab(args) => return lab::run(&args).unwrap_or_else(|error| fail(&error)),
        Verb::Tidy => tidy::run(),
        Verb::Test(args) => test::run(&args),
        Verb::Mutants(args) => mutants::run(&args),
        Verb::Compat(args) => compat::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Soak(args) => return soak::run(&args).unwrap_or_else(|error| fail(&error)),
        Verb::Ci => ci::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprint!("{}", hint::render(error));
    ExitCode::FAILURE
}
