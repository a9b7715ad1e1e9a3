//! The client: commands with replies matched by id, events to whoever subscribed.
//!
//! ```text
//! execute ──line──▶ monitor        one task reads: reply ──▶ its caller
//!                                                  event ──▶ every subscription
//! ```
//!
//! Dropping a call's future leaves the channel in step: its reply is discarded when it comes. A call
//! dropped in the middle of writing its line breaks the channel, and later calls say so.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{broadcast, oneshot};
use tokio::task::AbortHandle;

use super::error::QmpError;
use super::wire::{self, Event, Incoming, MAX_LINE, Refusal};

/// Events kept for a subscriber that is slow; a monitor under its guest's control gets no more.
const EVENT_BACKLOG: usize = 64;

/// Calls waiting for a reply; `None` once the channel is closed.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, Refusal>>>>>>;

/// A control channel to one monitor.
#[derive(Debug)]
pub struct Qmp {
    writer: tokio::sync::Mutex<Writer>,
    pending: Pending,
    events: broadcast::Sender<Event>,
    next_id: AtomicU64,
    reader: AbortHandle,
}

#[derive(Debug)]
struct Writer {
    half: OwnedWriteHalf,
    /// Set while a line is half written.
    broken: bool,
}

/// The events from the moment of subscribing.
#[derive(Debug)]
pub struct Subscription {
    events: broadcast::Receiver<Event>,
}

impl Qmp {
    /// Greets the monitor at the other end of `stream`.
    ///
    /// # Errors
    /// When it does not greet back as QEMU does.
    pub async fn connect(stream: UnixStream) -> Result<Self, QmpError> {
        const GREETING: &str = "the greeting";
        let (read, write) = stream.into_split();
        let mut read = BufReader::new(read);
        match next_line(&mut read, GREETING).await? {
            Some(Incoming::Greeting) => {}
            Some(other) => {
                return Err(QmpError::Unexpected { command: GREETING, what: other.kind().to_owned() });
            }
            None => return Err(QmpError::Closed { command: GREETING }),
        }
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let (events, _) = broadcast::channel(EVENT_BACKLOG);
        let task = tokio::spawn(read_all(read, Arc::clone(&pending), events.clone()));
        let client = Self {
            writer: tokio::sync::Mutex::new(Writer { half: write, broken: false }),
            pending,
            events,
            next_id: AtomicU64::new(1),
            reader: task.abort_handle(),
        };
        client.execute("qmp_capabilities", Value::Null).await?;
        Ok(client)
    }

    /// Events from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        Subscription { events: self.events.subscribe() }
    }

    /// Runs one command and returns its reply.
    ///
    /// # Errors
    /// When the monitor refuses it or the channel fails.
    pub async fn execute(&self, command: &'static str, arguments: Value) -> Result<Value, QmpError> {
        self.call(command, arguments, None).await
    }

    /// Runs one command with a descriptor attached to it.
    ///
    /// # Errors
    /// When the monitor refuses it or the channel fails.
    pub async fn execute_with_fd(
        &self,
        command: &'static str,
        arguments: Value,
        descriptor: BorrowedFd<'_>,
    ) -> Result<Value, QmpError> {
        self.call(command, arguments, Some(descriptor)).await
    }

    async fn call(
        &self,
        command: &'static str,
        arguments: Value,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Value, QmpError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        match lock(&self.pending).as_mut() {
            Some(pending) => pending.insert(id, reply),
            None => return Err(QmpError::Closed { command }),
        };
        let _forget = Forget { pending: &self.pending, id };
        let line = wire::command(id, command, &arguments);
        self.writer
            .lock()
            .await
            .send(&line, descriptor)
            .await
            .map_err(|source| QmpError::Channel { command, source })?;
        match answer.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refusal)) => {
                Err(QmpError::Refused { command, class: refusal.class, description: refusal.desc })
            }
            Err(_) => Err(QmpError::Closed { command }),
        }
    }

    /// Waits until the migration that was started after subscribing has completed.
    ///
    /// # Errors
    /// When it ends in any other way or the channel closes.
    pub async fn migration_completed(&self, mut subscription: Subscription) -> Result<(), QmpError> {
        const WAITING: &str = "the migration";
        loop {
            let status = match subscription.events.recv().await {
                Ok(Event::Named { name, status }) if name == "MIGRATION" => status,
                Ok(Event::Named { .. }) => continue,
                Ok(Event::Closed) | Err(broadcast::error::RecvError::Closed) => {
                    return Err(QmpError::Closed { command: WAITING });
                }
                // Some events were lost; the answer may have been among them.
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    self.execute("query-migrate", Value::Null).await?["status"].as_str().map(wire::words)
                }
            };
            match status.as_deref() {
                Some("completed") => return Ok(()),
                Some(status @ ("failed" | "cancelled")) => {
                    let report = self.execute("query-migrate", Value::Null).await.unwrap_or_default();
                    let description = report["error-desc"].as_str().map(wire::words);
                    return Err(QmpError::Migration { status: status.to_owned(), description });
                }
                _ => {}
            }
        }
    }

    /// Enables what every migration of this engine uses: events instead of polling, and leaving
    /// memory that is a shared file alone.
    ///
    /// # Errors
    /// When the monitor refuses.
    pub async fn enable_template_migration(&self) -> Result<(), QmpError> {
        let on = |name: &str| json!({ "capability": name, "state": true });
        let capabilities = json!({ "capabilities": [on("events"), on("x-ignore-shared")] });
        self.execute("migrate-set-capabilities", capabilities).await.map(|_| ())
    }
}

impl Drop for Qmp {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Takes a call off the waiting list however it ends.
struct Forget<'a> {
    pending: &'a Pending,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(pending) = lock(self.pending).as_mut() {
            pending.remove(&self.id);
        }
    }
}

impl Writer {
    async fn send(&mut self, line: &[u8], mut descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(io::Error::other("an earlier command was cut short"));
        }
        let stream: &UnixStream = self.half.as_ref();
        let mut rest = line;
        while !rest.is_empty() {
            let sent = stream
                .async_io(Interest::WRITABLE, || {
                    let raw = descriptor.map(|fd| [fd.as_raw_fd()]);
                    let control = raw.as_ref().map(|raw| ControlMessage::ScmRights(raw));
                    let parts = [IoSlice::new(rest)];
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    sendmsg::<()>(stream.as_raw_fd(), &parts, control.as_slice(), flags, None)
                        .map_err(io::Error::from)
                })
                .await?;
            descriptor = None;
            rest = &rest[sent..];
        }
        self.broken = false;
        Ok(())
    }
}

async fn read_all(mut read: BufReader<OwnedReadHalf>, pending: Pending, events: broadcast::Sender<Event>) {
    loop {
        match next_line(&mut read, "reading").await {
            Ok(Some(Incoming::Reply { id, result })) => {
                let waiting = lock(&pending).as_mut().and_then(|pending| pending.remove(&id));
                if let Some(waiting) = waiting {
                    let _ = waiting.send(result);
                }
            }
            Ok(Some(Incoming::Event(event))) => {
                let _ = events.send(event);
            }
            Ok(Some(Incoming::Greeting)) => {}
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "a monitor's control channel is given up");
                break;
            }
        }
    }
    // Dropping the senders tells every waiting call.
    lock(&pending).take();
    let _ = events.send(Event::Closed);
}

/// The next line, or `None` at the end of the stream.
async fn next_line(
    read: &mut BufReader<OwnedReadHalf>,
    command: &'static str,
) -> Result<Option<Incoming>, QmpError> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
    match read.take(limit).read_until(b'\n', &mut line).await {
        Ok(0) => return Ok(None),
        Ok(_) if line.ends_with(b"\n") => {}
        Ok(count) if count >= MAX_LINE => {
            return Err(QmpError::Unexpected {
                command,
                what: format!("a line longer than {MAX_LINE} bytes"),
            });
        }
        Ok(_) => return Ok(None),
        // A peer that ended without reading everything we sent.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        Err(source) => return Err(QmpError::Channel { command, source }),
    }
    Incoming::parse(&line).map(Some).map_err(|what| QmpError::Unexpected { command, what })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
