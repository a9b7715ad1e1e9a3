//! What the options of `exec` ask a server for.

use std::io::IsTerminal as _;

use anyhow::bail;
use rekindle_api::time::{duration, timestamp};
use rekindle_api::v1::program::Program as Kind;
use rekindle_api::v1::{Code, Command, ExecuteRequest, Language, Program};

use crate::cli::args::{ExecOptions, ProgramOptions};

/// Refuses what cannot be done, before anything is.
pub fn check(options: &ExecOptions) -> anyhow::Result<()> {
    if options.tty && options.interactive && !options.detach && !std::io::stdin().is_terminal() {
        bail!(
            "standard input is no terminal\nhint: leave out -t to hand on what comes from a pipe or a file"
        );
    }
    if options.key.as_deref() == Some("") {
        bail!("the key is empty\nhint: a key names the call, such as a request's id");
    }
    Ok(())
}

/// The request.
pub fn request(options: &ExecOptions, sandbox: String) -> ExecuteRequest {
    let ExecOptions { program, key, .. } = options;
    ExecuteRequest {
        sandbox,
        program: Some(Program { program: Some(kind(program)) }),
        env: program.env.iter().cloned().collect(),
        cwd: program.cwd.clone(),
        user: program.user.name.to_wire(),
        timeout: program.timeout.map(duration),
        memory_bytes: program.memory.unwrap_or(0),
        output_limit: program.output_limit,
        now: program.clock.now.map(timestamp),
        timezone: program.clock.timezone.clone(),
        idempotency_key: key.clone().unwrap_or_default(),
        ..ExecuteRequest::default()
    }
}

fn kind(options: &ProgramOptions) -> Kind {
    let code = |language: Language, source: &str| {
        let source = source.to_owned();
        Kind::Code(Code { language: language.into(), source, plain_interpreter: options.plain })
    };
    if let Some(source) = &options.python {
        code(Language::Python, source)
    } else if let Some(source) = &options.node {
        code(Language::Node, source)
    } else if let Some(line) = &options.sh {
        Kind::Shell(line.clone())
    } else {
        Kind::Command(Command { argv: options.argv.clone() })
    }
}
