//! The audit log: one line per decision about a caller, to a file or to the log.
//!
//! Recording never waits for the disk: it is called on the paths of calls, where a slow disk would hold up
//! every caller. Lines go to a writer thread over a bounded queue; a line that finds no room, or that the
//! disk refuses, is counted and written to the log instead (decision 0053).

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use serde::Serialize;

/// Lines that may wait for the disk.
const QUEUE: usize = 4096;
/// How long a flush waits for the writer.
const FLUSH: Duration = Duration::from_secs(5);

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The caller may, and it was done.
    Allowed,
    /// The caller may not.
    Denied,
    /// The caller may, but there is no room or the request makes no sense.
    Rejected,
}

/// One decision. Fields that are not known are left out of the line.
#[derive(Debug, Clone, Serialize)]
pub struct Entry<'a> {
    /// When.
    pub time: Timestamp,
    /// Whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<&'a str>,
    /// The id of the token, never its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
    /// The call.
    pub method: &'a str,
    /// The sandbox it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'a str>,
    /// What was decided.
    pub decision: Decision,
    /// Why, unless allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// The trace that the caller says it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The step of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a str>,
    /// Where the call came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<&'a str>,
    /// Decisions of this kind that have no line of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// One connection of a sandbox to the outside. Tenant and sandbox are facts of the host; which execution it was is what
/// the guest says.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionEntry<'a> {
    /// When it ended, or was decided about.
    pub time: Timestamp,
    /// Whose.
    pub tenant: &'a str,
    /// Which sandbox.
    pub sandbox: &'a str,
    /// Which execution, by the guest's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_says_execution: Option<&'a str>,
    /// The trace that the caller of that execution says it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The step of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a str>,
    /// What is recorded: `connection`.
    pub method: &'a str,
    /// What became of it: served, cut, denied or failed.
    pub outcome: &'a str,
    /// What was decided.
    pub decision: Decision,
    /// What was asked for.
    pub host: &'a str,
    /// On which port.
    pub port: u16,
    /// The policy in force.
    pub policy: &'a str,
    /// The rule that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// Why it was denied or cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// Bytes out of the sandbox.
    pub bytes_up: u64,
    /// Bytes into it.
    pub bytes_down: u64,
    /// Connections of the sandbox before this one that have no line of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// The last connections of a sandbox, which have no line of their own and none after them that counts them.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOutEntry<'a> {
    /// When the sandbox had ended.
    pub time: Timestamp,
    /// Whose.
    pub tenant: &'a str,
    /// Which sandbox.
    pub sandbox: &'a str,
    /// What is recorded: `connections`.
    pub method: &'a str,
    /// How many.
    pub left_out: u64,
}

/// Why there is no audit log.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the audit log {}\nhint: check telemetry.audit_log", path.display())]
pub struct AuditError {
    /// The file.
    pub path: PathBuf,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

enum Order {
    Line(String),
    Reopen,
    Flush(SyncSender<()>),
}

/// Where decisions are recorded.
pub struct Audit {
    writer: Option<Writer>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

struct Writer {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    lost: Counter,
}

impl Audit {
    /// Records to the log, target `audit`.
    #[must_use]
    pub fn to_log() -> Self {
        Self { writer: None }
    }

    /// Records to a file, which is made for the owner alone if need be. `lost` counts lines that do not
    /// get there ([`super::Metrics::audit_lost`]).
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not started.
    pub fn to_file(path: &Path, lost: Counter) -> Result<Self, AuditError> {
        let file = open(path)?;
        let (orders, received) = sync_channel(QUEUE);
        let (owned, counter) = (path.to_owned(), lost.clone());
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(file, &owned, &received, &counter))
            .map_err(|source| AuditError { path: path.to_owned(), source })?;
        Ok(Self { writer: Some(Writer { orders: Some(orders), thread: Some(thread), lost }) })
    }

    /// Records one decision, an [`Entry`] or a [`ConnectionEntry`], or a sum of them. Never waits.
    pub fn record(&self, entry: &impl Serialize) {
        // Text and enums are always JSON.
        let line = serde_json::to_string(entry).unwrap_or_default();
        let Some(writer) = &self.writer else {
            tracing::info!(target: "audit", "{line}");
            return;
        };
        if let Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) =
            writer.send(Order::Line(line))
            && let Order::Line(line) = order
        {
            spill(&writer.lost, &line, "the queue is full");
        }
    }

    /// Opens the file again, on SIGHUP: whoever rotates logs has moved the old one away.
    pub fn reopen(&self) {
        if let Some(writer) = &self.writer
            && writer.send(Order::Reopen).is_err()
        {
            tracing::warn!("the audit log is too busy to be opened again; send SIGHUP once more");
        }
    }

    /// Waits until what was recorded so far is written; false when that takes too long. Blocks: for the end
    /// of the service, not for calls.
    #[must_use]
    pub fn flush(&self) -> bool {
        let Some(writer) = &self.writer else { return true };
        let (done, waited) = sync_channel(1);
        let Some(orders) = &writer.orders else { return false };
        orders.send(Order::Flush(done)).is_ok() && waited.recv_timeout(FLUSH).is_ok()
    }
}

impl Writer {
    fn send(&self, order: Order) -> Result<(), TrySendError<Order>> {
        match &self.orders {
            Some(orders) => orders.try_send(order),
            None => Err(TrySendError::Disconnected(order)),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread writes what is queued, then finds nobody left.
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the audit log's writer failed");
        }
    }
}

fn open(path: &Path) -> Result<File, AuditError> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(|source| AuditError { path: path.to_owned(), source })
}

fn write(mut file: File, path: &Path, orders: &Receiver<Order>, lost: &Counter) {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Line(mut line) => {
                line.push('\n');
                // One write a line: lines of two writers do not mix.
                if let Err(error) = file.write_all(line.as_bytes()) {
                    spill(lost, line.trim_end(), &error.to_string());
                }
            }
            Order::Reopen => match open(path) {
                Ok(new) => file = new,
                Err(error) => tracing::error!(error = %error.source, "the audit log stays the old file"),
            },
            Order::Flush(done) => {
                let _ = file.sync_data();
                let _ = done.send(());
            }
        }
    }
}

/// A line that did not reach the file is in the log, and counted.
fn spill(lost: &Counter, line: &str, why: &str) {
    lost.inc();
    tracing::warn!(target: "audit", why, "not in the audit file: {line}");
}

#[cfg(test)]
mod tests;
