//! `rekindle attach`: shows what a detached program has printed and prints, and ends as it does. Whatever ends this
//! command before, the program goes on.

use anyhow::bail;
use bytes::Bytes;
use rekindle_api::client::Client;
use rekindle_api::v1::{
    AttachExecutionRequest, ErrorReason, ResizeExecutionRequest, SendInputRequest, WaitExecutionRequest,
};
use std::io::IsTerminal as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exec::{Ended, finish, pump};
use super::terminal::{self, Mode, Terminal};
use super::{escape, jobs, refusal, resolve};
use crate::cli::args::AttachOptions;
use crate::cli::execution;
use crate::cli::interrupt::{SIGNAL_BASE, interrupted};

/// Ctrl-], which leaves a program whose terminal is this one.
const LEAVE: u8 = 0x1d;

/// The program, by sandbox and name.
#[derive(Debug, Clone)]
struct Target {
    client: Client,
    sandbox: String,
    execution: String,
}

/// Runs the command.
pub async fn attach(mut client: Client, options: AttachOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let mut target = Target { client, sandbox, execution: options.execution.clone() };
    if options.json {
        let Target { client, sandbox, execution } = target;
        let mut executions = client.executions;
        let ended = executions.wait(WaitExecutionRequest { sandbox, execution }).await;
        let ended = Ended::Finished(Box::new(ended.map_err(refusal::refused)?.into_inner()));
        return finish(ended, true, false);
    }
    let keyboard = options.interactive && target.takes_keys().await?;
    // Listened for before anything is shown: a change in between would be lost.
    let resized = if keyboard { Some(signal(SignalKind::window_change())?) } else { None };
    let request = AttachExecutionRequest {
        sandbox: target.sandbox.clone(),
        execution: target.execution.clone(),
        from_now: options.from_now,
    };
    let events = target.client.executions.attach(request).await.map_err(refusal::refused)?.into_inner();
    let raw = if keyboard { Some(Terminal::enter(Mode::Raw)?) } else { None };
    let forward = async {
        if !options.interactive {
            return std::future::pending().await;
        }
        target.clone().forward_stdin(keyboard).await
    };
    if let Some(resized) = resized {
        tokio::spawn(target.clone().forward_size(resized));
    }
    let ended = tokio::select! {
        ended = pump(events, true, tokio::io::stdout(), tokio::io::stderr()) => ended,
        left = forward => left.map(|()| Ended::Left(0)),
        // Without a terminal in another mode there is nothing to put back, and the kernel ends this command.
        number = interrupted(true), if keyboard => Ok(Ended::Left(SIGNAL_BASE + number)),
    };
    drop(raw);
    finish(ended?, false, true)
}

impl Target {
    /// Whether the program's terminal and ours become one. Refuses a program that takes no input.
    async fn takes_keys(&mut self) -> anyhow::Result<bool> {
        let all = jobs::list(&mut self.client, self.sandbox.clone()).await?;
        let job = all.into_iter().find(|job| job.execution == self.execution);
        match job {
            Some(job) if job.takes_input => Ok(job.terminal && std::io::stdin().is_terminal()),
            Some(_) => bail!(
                "{} takes no input\nhint: a program that is to be fed is started with `rekindle exec --detach -i`",
                escape::text(&self.execution)
            ),
            // The server says so in its own words.
            None => Ok(false),
        }
    }

    /// Hands our own standard input on. Returns when the person at the keyboard leaves.
    async fn forward_stdin(mut self, keyboard: bool) -> anyhow::Result<()> {
        let mut pieces = execution::pieces();
        while let Some(piece) = pieces.recv().await {
            let (typed, leaves) = if keyboard { until_leave(&piece) } else { (piece, false) };
            if !self.send(typed, false).await? {
                return std::future::pending().await;
            }
            if leaves {
                return Ok(());
            }
        }
        self.send(Bytes::new(), true).await?;
        std::future::pending().await
    }

    /// Whether the program takes more. One that has ended is told of elsewhere.
    async fn send(&mut self, data: Bytes, end: bool) -> anyhow::Result<bool> {
        let (sandbox, execution) = (self.sandbox.clone(), self.execution.clone());
        match self.client.executions.send_input(SendInputRequest { sandbox, execution, data, end }).await {
            Ok(_) => Ok(true),
            Err(status) if refusal::is(&status, ErrorReason::NotFound) => Ok(false),
            Err(status) => Err(refusal::refused(status)),
        }
    }

    /// Tells the program's terminal our size, now and when it changes.
    async fn forward_size(mut self, mut resized: Signal) {
        loop {
            let request = ResizeExecutionRequest {
                sandbox: self.sandbox.clone(),
                execution: self.execution.clone(),
                size: Some(terminal::size()),
            };
            if self.client.executions.resize(request).await.is_err() || resized.recv().await.is_none() {
                return;
            }
        }
    }
}

/// What was typed before the key that leaves, and whether that was typed.
fn until_leave(piece: &Bytes) -> (Bytes, bool) {
    match piece.iter().position(|byte| *byte == LEAVE) {
        Some(at) => (piece.slice(..at), true),
        None => (piece.clone(), false),
    }
}

#[cfg(test)]
mod tests {
    //! The key that leaves.

    use super::*;

    #[test]
    fn what_is_typed_before_the_key_that_leaves_is_sent() {
        let piece = Bytes::from_static;
        assert_eq!(until_leave(&piece(b"ls\r")), (piece(b"ls\r"), false));
        assert_eq!(until_leave(&piece(b"ls\x1drest")), (piece(b"ls"), true));
        assert_eq!(until_leave(&piece(b"\x1d")), (Bytes::new(), true));
    }
}
