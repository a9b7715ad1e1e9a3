//! Learns what changes in a directory.

use std::time::Duration;

use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_EVENTS;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::file_event::Kind;
use rekindle_protocol::wire::{self, FileEvents, WatchRequest, WatchSync, request::Op, response::Reply};
use serde::Serialize;
use tokio::io::WriteHalf;
use tokio::time::{Instant, timeout_at};

use super::client::{AgentClient, Lane};
use super::error::{AgentError, Refusal};
use super::operation::Operation;
use super::path::GuestPath;
use super::patience::deadline;

/// The operation's name in errors.
const WATCH: &str = "watch";
/// The minor protocol version from which on an agent can watch.
const SINCE: u32 = 7;
/// Changes that are taken at once; the rest is taken the next time.
const MAX_TAKEN: usize = 4_096;

/// One change of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEvent {
    /// Relative to the directory that is watched.
    pub path: GuestPath,
    /// What happened.
    pub kind: FileEventKind,
}

/// What can happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEventKind {
    /// It was made, or moved to here.
    Created,
    /// Its content changed.
    Written,
    /// It was removed.
    Removed,
    /// It was moved away from here.
    Renamed,
    /// Its owner, permissions, times or attributes changed.
    Changed,
}

/// A directory that is watched, until this is dropped.
#[derive(Debug)]
pub struct Watcher {
    operation: Operation,
    writer: WriteHalf<Stream>,
    /// A sync is half written, and nothing can follow it.
    broken: bool,
    syncs: u64,
    /// Changes that were received for a caller who gave up.
    received: Vec<FileEvent>,
}

impl AgentClient {
    /// Watches a directory from now on, with `recursive` also everything below it.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.7 cannot, and are not asked.
    pub async fn watch(
        &self,
        path: &GuestPath,
        recursive: bool,
        within: Duration,
    ) -> Result<Watcher, AgentError> {
        if self.hello().version.minor < SINCE {
            return Err(AgentError::Refused {
                operation: WATCH,
                kind: Refusal::UnknownRequest,
                message: "the agent cannot watch files: the template has to be built again".to_owned(),
            });
        }
        let deadline = deadline(within);
        let request = WatchRequest { path: path.to_wire(), recursive, user: self.wire_user(WATCH)? };
        let mut operation = self.begin(WATCH, Lane::Watch, Op::Watch(request), deadline).await?;
        let Some(writer) = operation.take_writer() else {
            return Err(operation.invalid("its input is written elsewhere"));
        };
        match operation.receive(Some(deadline)).await? {
            Reply::Done(_) => {
                Ok(Watcher { operation, writer, broken: false, syncs: 0, received: Vec::new() })
            }
            other => Err(operation.unexpected(&other)),
        }
    }
}

impl Watcher {
    /// The next changes, as soon as there are any. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`AgentError`]; the watch is over then.
    pub async fn next(&mut self) -> Result<Vec<FileEvent>, AgentError> {
        while self.received.is_empty() {
            (self.received, _) = self.receive(None).await?;
        }
        Ok(std::mem::take(&mut self.received))
    }

    /// All changes until now that nobody has taken; of very many, the first. Can be abandoned and called again.
    ///
    /// # Errors
    /// See [`AgentError`]; the watch is over then.
    pub async fn take(&mut self, within: Duration) -> Result<Vec<FileEvent>, AgentError> {
        let deadline = deadline(within);
        if std::mem::replace(&mut self.broken, true) {
            return Err(self.operation.invalid("an earlier question was given up half-way"));
        }
        self.syncs += 1;
        let sync = WatchSync { number: self.syncs };
        match timeout_at(deadline, frame::write(&mut self.writer, &sync)).await {
            Ok(Ok(())) => self.broken = false,
            // What ended it is among the replies.
            Ok(Err(_)) => {}
            Err(_) => return Err(self.operation.silent()),
        }
        loop {
            let (events, synced) = self.receive(Some(deadline)).await?;
            self.received.extend(events);
            if synced == self.syncs || self.received.len() >= MAX_TAKEN {
                return Ok(std::mem::take(&mut self.received));
            }
        }
    }

    async fn receive(&mut self, deadline: Option<Instant>) -> Result<(Vec<FileEvent>, u64), AgentError> {
        let FileEvents { events, synced } = match self.operation.receive(deadline).await? {
            Reply::Events(events) => events,
            other => return Err(self.operation.unexpected(&other)),
        };
        if synced > self.syncs || (events.is_empty() && synced == 0) {
            return Err(self.operation.violated("an answer to a sync that nobody sent"));
        }
        if events.len() > MAX_EVENTS {
            return Err(self.operation.violated("too many changes at once"));
        }
        let events = events.iter().map(event).collect::<Result<_, _>>();
        Ok((events.map_err(|what| self.operation.violated(what))?, synced))
    }
}

fn event(event: &wire::FileEvent) -> Result<FileEvent, &'static str> {
    let kind = match Kind::try_from(event.kind) {
        Ok(Kind::Created) => FileEventKind::Created,
        Ok(Kind::Written) => FileEventKind::Written,
        Ok(Kind::Removed) => FileEventKind::Removed,
        Ok(Kind::Renamed) => FileEventKind::Renamed,
        Ok(Kind::Changed) => FileEventKind::Changed,
        Ok(Kind::Unspecified) | Err(_) => return Err("a change of no known kind"),
    };
    let path = GuestPath::below(&event.path, u32::MAX).ok_or("a change of an impossible path")?;
    Ok(FileEvent { path, kind })
}

#[cfg(test)]
mod tests {
    //! What a guest may say of changes.

    use super::*;

    #[test]
    fn a_change_is_below_the_directory_and_of_a_known_kind() {
        let told = |path: &str, kind: i32| event(&wire::FileEvent { path: path.to_owned().into(), kind });
        let good = told("a/b.txt", 2).expect("a change");
        assert_eq!((good.path.as_bytes(), good.kind), (&b"a/b.txt"[..], FileEventKind::Written));
        for path in ["", "/etc", "..", "a/../../b", "a//b", "a/", ".", "a\0b", &"a".repeat(5_000)] {
            assert!(told(path, 1).is_err(), "{path:?}");
        }
        for kind in [0, 6, -1] {
            assert!(told("a", kind).is_err(), "{kind}");
        }
    }
}
