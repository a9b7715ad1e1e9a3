//! `rekindle`: the command line. Parses arguments, calls one command, turns its end into an exit code.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
