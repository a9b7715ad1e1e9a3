//! A checked execute request: everything an execution needs, parsed once at the edge.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use nix::pty::Winsize;
use rekindle_protocol::limits::{
    DEFAULT_OUTPUT_LIMIT, MAX_ARG_BYTES, MAX_ARGS, MAX_OUTPUT_LIMIT, MAX_PATH_BYTES, MAX_STDIN_BYTES,
    MAX_STRING_BYTES, MIN_OUTPUT_LIMIT,
};
use rekindle_protocol::wire::execute_request::Program;
use rekindle_protocol::wire::{self, ErrorCode, Language, Stdin};

use crate::agent::Agent;
use crate::exec::account::Account;
use crate::exec::clock;
use crate::exec::environment::{self, Environment};
use crate::failure::Failure;
use crate::restore::Sandbox;

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// There is none.
    Nothing,
    /// These bytes.
    Whole(Bytes),
    /// What the caller sends.
    Live,
}

/// One execution, checked.
#[derive(Debug)]
pub struct Spec {
    /// Program and arguments.
    pub argv: Vec<CString>,
    /// The language of the code that runs, if it is code.
    pub language: Option<Language>,
    /// Its environment.
    pub environment: Environment,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Who it runs as.
    pub account: Account,
    /// Its wall-clock limit.
    pub timeout: Option<Duration>,
    /// Its standard input.
    pub input: Input,
    /// The size of its terminal, if it has one.
    pub terminal: Option<Winsize>,
    /// Whether output is also sent while it runs.
    pub stream: bool,
    /// Whether its start is told.
    pub announced: bool,
    /// Characters of each output stream in the result.
    pub output_limit: usize,
    /// Its memory limit in bytes, 0 for none of its own.
    pub memory_bytes: u64,
    /// Its process limit, 0 for none of its own.
    pub pids: u32,
    /// Whether its interpreter must be started for it.
    pub plain: bool,
    /// The host's own number for it.
    pub label: u64,
    /// Whether it runs as the sandbox's own user.
    pub usual_user: bool,
}

impl Spec {
    /// Checks a request.
    ///
    /// # Errors
    /// Says what makes no sense.
    pub fn parse(agent: &Agent, sandbox: &Sandbox, request: wire::ExecuteRequest) -> Result<Self, Failure> {
        environment::check(&request.env)?;
        let usual_user = agent.is_default_user(&request.user);
        let account = agent
            .account(&request.user)
            .map_err(|error| Failure::new(ErrorCode::NotFound, error.to_string()))?;
        let (argv, language) = program(request.program)?;
        let terminal = request.terminal.map(window).transpose()?;
        let lists = [sandbox.env.as_slice(), &request.env];
        let mut environment = Environment::build(&account, terminal.is_some(), lists);
        clock::set(&mut environment, request.clock_unix_nanos, &request.timezone)?;
        Ok(Self {
            argv: argv.into_iter().map(c_string).collect::<Result<_, _>>()?,
            language,
            environment,
            cwd: directory(&request.cwd, &account.home)?,
            timeout: (request.timeout_millis > 0).then(|| Duration::from_millis(request.timeout_millis)),
            input: match Stdin::try_from(request.stdin) {
                Ok(Stdin::Unspecified) => Input::Nothing,
                Ok(Stdin::Whole) if request.stdin_data.len() <= MAX_STDIN_BYTES => {
                    Input::Whole(request.stdin_data)
                }
                Ok(Stdin::Whole) => {
                    let message =
                        format!("standard input of more than {MAX_STDIN_BYTES} bytes must be sent live");
                    return Err(Failure::new(ErrorCode::TooLarge, message));
                }
                Ok(Stdin::Live) => Input::Live,
                Err(_) => return Err(Failure::invalid("unknown kind of standard input")),
            },
            terminal,
            stream: request.stream,
            announced: !request.unannounced,
            output_limit: output_limit(request.output_limit as usize)?,
            memory_bytes: request.memory_bytes,
            pids: request.pids,
            plain: request.plain_interpreter,
            label: request.label,
            usual_user,
            account,
        })
    }

    /// A program of the agent's own, run as root with an environment that holds nothing of the agent's.
    pub fn own(argv: Vec<CString>, env: &[wire::EnvVar]) -> Self {
        let account =
            Account { name: "root".into(), uid: 0, gid: 0, groups: Vec::new(), home: PathBuf::from("/root") };
        Self {
            argv,
            language: None,
            environment: Environment::build(&account, false, [env]),
            cwd: PathBuf::from("/"),
            account,
            timeout: None,
            input: Input::Nothing,
            terminal: None,
            stream: false,
            announced: false,
            output_limit: DEFAULT_OUTPUT_LIMIT,
            memory_bytes: 0,
            pids: 0,
            plain: true,
            label: 0,
            usual_user: false,
        }
    }
}

/// The argument vector a program comes down to.
fn program(program: Option<Program>) -> Result<(Vec<Bytes>, Option<Language>), Failure> {
    let words = |[program, flag]: [&'static str; 2], last: String| {
        vec![Bytes::from(program), Bytes::from(flag), Bytes::from(last)]
    };
    let (argv, language) = match program {
        None => return Err(Failure::invalid("there is nothing to execute")),
        Some(Program::Command(command)) => (command.argv, None),
        Some(Program::Shell(line)) => (words(["/bin/sh", "-c"], line), None),
        Some(Program::Code(code)) => match Language::try_from(code.language) {
            Ok(language @ Language::Python) => (words(["python3", "-c"], code.source), Some(language)),
            Ok(language @ Language::Node) => (words(["node", "-e"], code.source), Some(language)),
            Ok(language @ Language::Bash) => (words(["bash", "-c"], code.source), Some(language)),
            Ok(Language::Unspecified) | Err(_) => return Err(Failure::invalid("unknown language")),
        },
    };
    if argv.first().is_none_or(Bytes::is_empty) {
        return Err(Failure::invalid("the program has no name"));
    }
    if argv.len() > MAX_ARGS || argv.iter().map(Bytes::len).sum::<usize>() > MAX_ARG_BYTES {
        return Err(Failure::new(ErrorCode::TooLarge, "the argument list is too long"));
    }
    if argv.iter().any(|word| word.len() > MAX_STRING_BYTES) {
        let message =
            format!("an argument or source text exceeds {MAX_STRING_BYTES} bytes; upload it as a file");
        return Err(Failure::new(ErrorCode::TooLarge, message));
    }
    Ok((argv, language))
}

fn c_string(bytes: Bytes) -> Result<CString, Failure> {
    CString::new(Vec::from(bytes)).map_err(|_| Failure::invalid("an argument holds a NUL byte"))
}

fn directory(cwd: &[u8], home: &Path) -> Result<PathBuf, Failure> {
    if cwd.len() > MAX_PATH_BYTES || cwd.contains(&0) {
        return Err(Failure::invalid("the working directory is no path"));
    }
    Ok(home.join(OsStr::from_bytes(cwd)))
}

/// A terminal size of the wire as the kernel wants it.
pub fn window(size: wire::TerminalSize) -> Result<Winsize, Failure> {
    match (u16::try_from(size.rows), u16::try_from(size.cols)) {
        (Ok(rows @ 1..), Ok(cols @ 1..)) => {
            Ok(Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })
        }
        _ => Err(Failure::invalid("a terminal has 1 to 65535 rows and columns")),
    }
}

fn output_limit(wanted: usize) -> Result<usize, Failure> {
    match wanted {
        0 => Ok(DEFAULT_OUTPUT_LIMIT),
        MIN_OUTPUT_LIMIT..=MAX_OUTPUT_LIMIT => Ok(wanted),
        _ => Err(Failure::invalid(format!(
            "an output limit is {MIN_OUTPUT_LIMIT} to {MAX_OUTPUT_LIMIT} characters"
        ))),
    }
}
