//! `rekindle code`: runs code in a context of a sandbox, and ends with 1 when the code fails.
//!
//! ```text
//!   source: a file, -c or standard input ──▶ Run ──▶ show: as it comes ──▶ save: images, with --save
//!                                                └─▶ collect: as JSON at the end, with --json
//! ```

mod collect;
mod save;
mod show;
mod source;

use rekindle_api::client::Client;
use rekindle_api::v1::run_code_event::Event;
use rekindle_api::v1::{CodeError, ErrorReason, RunCodeEvent, RunCodeRequest};
use rekindle_api::{Request, Status, Streaming};

use self::collect::Collected;
use self::save::Gallery;
use self::show::Shown;
use super::{context, print, refusal, resolve};
use crate::cli::args::CodeOptions;
use crate::cli::interrupt::SIGNAL_BASE;

/// What code that fails ends with,
const FAILED: u8 = 1;
/// and code that takes longer than it may, as elsewhere.
const TIMED_OUT: u8 = 124;
const SIGPIPE: u8 = 13;
const NO_END: &str =
    "the server ended the run without an end\nhint: `rekindle timeline` says what happened to it";

/// Runs the command.
pub async fn code(mut client: Client, options: CodeOptions) -> anyhow::Result<u8> {
    let code = source::read(&options)?;
    let gallery = options.save.as_deref().map(Gallery::open).transpose()?;
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let language = match &options.context {
        Some(_) => 0,
        None => source::language(&options).map_or(0, |name| context::language(name).into()),
    };
    let context = options.context.unwrap_or_default();
    let env = options.env.into_iter().collect();
    let mut request = Request::new(RunCodeRequest { sandbox, code, context, language, env });
    if let Some(timeout) = options.timeout {
        request.set_timeout(timeout);
    }
    let ran = match client.interpreter.run(request).await {
        Ok(events) if options.json => collect(events.into_inner(), gallery).await,
        Ok(events) => follow(events.into_inner(), gallery).await,
        Err(status) => Err(Broken::Status(status)),
    };
    match ran {
        Ok(code) => Ok(code),
        Err(Broken::Status(status)) if refusal::is(&status, ErrorReason::Deadline) => {
            eprintln!("rekindle: the code was interrupted: it took longer than its timeout");
            Ok(TIMED_OUT)
        }
        Err(Broken::Status(status)) => Err(refusal::refused(status)),
        Err(Broken::Here(error)) => Err(error),
    }
}

/// Why a run has no end.
enum Broken {
    /// The server says why.
    Status(Status),
    /// Something of this command's own.
    Here(anyhow::Error),
}

impl From<anyhow::Error> for Broken {
    fn from(error: anyhow::Error) -> Self {
        Self::Here(error)
    }
}

/// The next event; the end of the stream is none.
async fn next(events: &mut Streaming<RunCodeEvent>) -> Result<Event, Broken> {
    loop {
        match events.message().await.map_err(Broken::Status)? {
            Some(RunCodeEvent { event: Some(event) }) => return Ok(event),
            // A newer server's word.
            Some(RunCodeEvent { event: None }) => {}
            None => return Err(anyhow::anyhow!(NO_END).into()),
        }
    }
}

/// Prints what comes until the end.
async fn follow(mut events: Streaming<RunCodeEvent>, mut gallery: Option<Gallery>) -> Result<u8, Broken> {
    let mut failed = false;
    let mut shown = Shown::default();
    loop {
        let written = match next(&mut events).await? {
            Event::Started(_) => Ok(()),
            Event::Stdout(text) => shown.stdout(&text),
            Event::Stderr(text) => shown.stderr(&text),
            Event::Result(result) => {
                if let Some(gallery) = &mut gallery {
                    gallery.keep(&result)?;
                }
                shown.result(&result)
            }
            Event::Error(error) => {
                failed = true;
                shown.stderr(&described(&error))
            }
            Event::End(_) => return Ok(if failed { FAILED } else { 0 }),
        };
        match written {
            Ok(()) => {}
            // Nobody reads any more: end as a local program would.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                return Ok(SIGNAL_BASE + SIGPIPE);
            }
            Err(error) => {
                return Err(anyhow::Error::new(error).context("cannot print the code's output").into());
            }
        }
    }
}

/// Prints everything at the end.
async fn collect(mut events: Streaming<RunCodeEvent>, mut gallery: Option<Gallery>) -> Result<u8, Broken> {
    let mut collected = Collected::default();
    loop {
        let event = next(&mut events).await?;
        if let (Event::Result(result), Some(gallery)) = (&event, &mut gallery) {
            gallery.keep(result)?;
        }
        if collected.take(event) {
            break;
        }
    }
    print::json(&collected)?;
    Ok(if collected.failed() { FAILED } else { 0 })
}

/// An error as the language would print it.
fn described(error: &CodeError) -> String {
    let CodeError { name, value, traceback, .. } = error;
    if traceback.trim().is_empty() {
        return if value.is_empty() { format!("{name}\n") } else { format!("{name}: {value}\n") };
    }
    format!("{}\n", traceback.trim_end_matches('\n'))
}
