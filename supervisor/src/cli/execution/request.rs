//! What the options of a program ask for, as a server is told it.

use rekindle_api::time::{duration, timestamp};
use rekindle_api::v1::program::Program as Kind;
use rekindle_api::v1::{Code, Command, ExecuteRequest, Language, Program};

use crate::cli::args::ProgramOptions;

/// The request, of no sandbox yet. Where the options have no program it is an empty command.
pub fn request(options: &ProgramOptions) -> ExecuteRequest {
    ExecuteRequest {
        program: Some(Program { program: Some(kind(options)) }),
        env: options.env.iter().cloned().collect(),
        cwd: options.cwd.clone(),
        user: options.user.name.to_wire(),
        timeout: options.timeout.map(duration),
        memory_bytes: options.memory.unwrap_or(0),
        output_limit: options.output_limit,
        now: options.clock.now.map(timestamp),
        timezone: options.clock.timezone.clone(),
        ..ExecuteRequest::default()
    }
}

/// A program of the sandbox and its arguments.
pub fn command(argv: Vec<String>) -> Program {
    Program { program: Some(Kind::Command(Command { argv })) }
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
