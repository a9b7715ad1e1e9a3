//! An execution with live output, input and signals, on a terminal of its own where that is asked for.
//!
//! Without a terminal the first interrupt from the keyboard goes to the program and the second ends this
//! command. With one all keys go to the program. Whatever ends this command, the call ends with it, and with the
//! call the program.

use anyhow::bail;
use rekindle_api::Streaming;
use rekindle_api::client::Client;
use rekindle_api::v1::execute_event::Event;
use rekindle_api::v1::execute_input::Input;
use rekindle_api::v1::{ExecuteEvent, ExecuteInput, ExecuteRequest, ExecuteStart, MissedOutput, StdinEnd};
use tokio::io::AsyncWrite;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Ended;
use crate::cli::args::ExecOptions;
use crate::cli::execution::{self, UNREAD, print_live};
use crate::cli::interrupt::{SIGNAL_BASE, interrupted};
use crate::cli::remote::requests::{Closed, Requests, requests};
use crate::cli::remote::terminal::{self, Mode, Terminal};
use crate::cli::remote::{escape, refusal};

/// The signal of an interrupt from the keyboard.
const SIGINT: u8 = 2;

/// Runs it.
pub(super) async fn live(
    client: &mut Client,
    options: &ExecOptions,
    request: ExecuteRequest,
) -> anyhow::Result<Ended> {
    // Listened for before the program starts: a change in between would be lost.
    let resized = if options.tty { Some(signal(SignalKind::window_change())?) } else { None };
    let (inputs, stream) = requests();
    let start = ExecuteStart {
        request: Some(request),
        terminal: options.tty.then(terminal::size),
        live_stdin: options.interactive,
    };
    // The call takes the stream right away, so there is room.
    let _ = send(&inputs, Input::Start(start)).await;
    let keyboard = options.tty && options.interactive;
    let run = async {
        let events =
            client.sandboxes.execute_stream(stream).await.map_err(refusal::not_started)?.into_inner();
        // Only now: a refusal is shown on a terminal as it was.
        let raw = if keyboard { Some(Terminal::enter(Mode::Raw)?) } else { None };
        if options.interactive {
            tokio::spawn(forward_stdin(inputs.clone()));
        }
        if let Some(resized) = resized {
            tokio::spawn(forward_size(resized, inputs.clone()));
        }
        let print = !options.program.json;
        let ended = pump(events, print, tokio::io::stdout(), tokio::io::stderr()).await;
        drop(raw);
        ended
    };
    tokio::select! {
        ended = run => ended,
        number = asked_to_end(&inputs, keyboard) => Ok(Ended::Left(SIGNAL_BASE + number)),
    }
}

/// Prints what comes until the end does.
pub(in crate::cli::remote) async fn pump(
    mut events: Streaming<ExecuteEvent>,
    print: bool,
    mut stdout: impl AsyncWrite + Unpin,
    mut stderr: impl AsyncWrite + Unpin,
) -> anyhow::Result<Ended> {
    let mut behind = false;
    while let Some(event) = events.message().await.map_err(refusal::refused)? {
        let read = match event.event {
            Some(Event::Stdout(data)) if print => print_live(&mut stdout, &data).await?,
            Some(Event::Stderr(data)) if print => print_live(&mut stderr, &data).await?,
            Some(Event::Missed(missed)) if print => {
                let bytes = missed.stdout_bytes.saturating_add(missed.stderr_bytes);
                eprintln!("rekindle: {bytes} bytes of output are not shown here; {}", whereabouts(&missed));
                behind = true;
                true
            }
            Some(Event::Finished(finished)) if behind => {
                execution::tell_notes(&finished);
                return Ok(Ended::Finished(Box::new(finished)));
            }
            Some(Event::Finished(finished)) => return Ok(Ended::Finished(Box::new(finished))),
            _ => true,
        };
        if !read {
            return Ok(Ended::Left(UNREAD));
        }
    }
    bail!(
        "the server ended the execution without a result\nhint: `rekindle timeline` says what happened to it"
    )
}

/// Where output is that is not shown.
fn whereabouts(missed: &MissedOutput) -> String {
    let both = [(missed.stdout_bytes, &missed.stdout_path), (missed.stderr_bytes, &missed.stderr_path)];
    let kept = both.iter().filter(|(bytes, path)| *bytes > 0 && !path.is_empty());
    let kept: Vec<String> = kept.map(|(_, path)| escape::bytes(path).to_string()).collect();
    match kept.is_empty() {
        true => "at the end it is said where all of it is".to_owned(),
        false => format!("`rekindle get` it from {}", kept.join(" and ")),
    }
}

/// Completes with the number of the signal this command has to end for.
async fn asked_to_end(inputs: &Requests<ExecuteInput>, keyboard: bool) -> u8 {
    if keyboard {
        return interrupted(true).await;
    }
    let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
        return interrupted(false).await;
    };
    let twice = async {
        interrupts.recv().await;
        let _ = send(inputs, Input::Signal(SIGINT.into())).await;
        interrupts.recv().await;
        SIGINT
    };
    tokio::select! {
        number = twice => number,
        number = interrupted(false) => number,
    }
}

/// Hands our own standard input on.
async fn forward_stdin(inputs: Requests<ExecuteInput>) {
    let mut pieces = execution::pieces();
    while let Some(piece) = pieces.recv().await {
        if send(&inputs, Input::Stdin(piece)).await.is_err() {
            return;
        }
    }
    let _ = send(&inputs, Input::StdinEnd(StdinEnd {})).await;
}

/// Tells the program's terminal when ours changes its size.
async fn forward_size(mut resized: Signal, inputs: Requests<ExecuteInput>) {
    while resized.recv().await.is_some() {
        if send(&inputs, Input::Resize(terminal::size())).await.is_err() {
            return;
        }
    }
}

async fn send(inputs: &Requests<ExecuteInput>, input: Input) -> Result<(), Closed> {
    inputs.send(ExecuteInput { input: Some(input) }).await
}
