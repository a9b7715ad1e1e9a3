//! What the monitor counts, read from a pipe in its jail.
//!
//! Firecracker writes a line of JSON right after a start, then now and then, and when it ends by itself. The last
//! lines are kept, and of those the counters that tell of trouble go into errors. A line comes in many small pieces,
//! so they are left in the pipe for a while: whoever read each of them would be woken by it in the middle of a start.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::{mkfifo, read};
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::jail::{Jail, METRICS};
use crate::engine::{EngineError, Operation};
use crate::host::process::Tail;
use crate::host::untrusted::printable;

/// How much is kept. A line has some ten kilobytes.
const TAIL_BYTES: usize = 64 * 1024;
/// How long lines stay in the pipe before they are read. It has room for several.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How many of them are summed up: who is taken over may make up names.
const MAX_COUNTERS: usize = 64;
/// How much of it goes into an error.
const MAX_DIGEST: usize = 400;
/// Parts of the names of counters that should stay at nought.
const TROUBLE: [&str; 6] = ["fail", "fault", "error", "panic", "missed", "invalid"];

/// The counters of one monitor.
#[derive(Debug)]
pub(super) struct Metrics {
    lines: Tail,
    pipe: Arc<pipe::Receiver>,
    reader: AbortHandle,
}

impl Metrics {
    /// Makes the pipe and reads from it for as long as this lives.
    pub(super) fn open(jail: &Jail, operation: Operation) -> Result<Self, EngineError> {
        let path = jail.run_dir().join(METRICS);
        let made = mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(io::Error::from);
        made.map_err(EngineError::file(operation, &path))?;
        jail.give(operation, METRICS)?;
        // Open for writing, too: otherwise it would end before the monitor has opened it.
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(&path);
        let pipe = Arc::new(pipe.map_err(EngineError::file(operation, &path))?);
        let lines = Tail::new(TAIL_BYTES);
        let reader = tokio::spawn(now_and_then(pipe.clone(), lines.clone())).abort_handle();
        Ok(Self { lines, pipe, reader })
    }

    /// The counters that tell of trouble, in few words; empty when there is none.
    pub(super) fn trouble(&self) -> String {
        // Read past the runtime, which may not have heard yet that there is something.
        take_in(&self.lines, |buffer| read(&self.pipe, buffer).map_err(io::Error::from));
        trouble(&self.lines.bytes())
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn now_and_then(pipe: Arc<pipe::Receiver>, lines: Tail) {
    while pipe.readable().await.is_ok() {
        sleep(READ_EVERY).await;
        take_in(&lines, |buffer| pipe.try_read(buffer));
    }
}

/// Takes in what is there now, but no more than is kept: a monitor that somebody has taken over may write faster than
/// anyone reads, and must not hold up the thread it is read on.
pub(super) fn take_in(lines: &Tail, mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) {
    let mut buffer = [0; 4096];
    for _ in 0..TAIL_BYTES / buffer.len() {
        match read(&mut buffer) {
            Ok(count @ 1..) => lines.push(&buffer[..count]),
            _ => return,
        }
    }
}

/// Sums up lines, each of which counts from the one before.
pub(crate) fn trouble(lines: &[u8]) -> String {
    let mut sums: Vec<(String, u64)> = Vec::new();
    // The first may have lost its beginning.
    let lines = lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    for line in lines {
        let line: Value = line;
        for (group, counters) in line.as_object().into_iter().flatten() {
            for (name, count) in counters.as_object().into_iter().flatten() {
                let Some(count @ 1..) = count.as_u64() else { continue };
                if !TROUBLE.iter().any(|part| name.contains(part)) {
                    continue;
                }
                let name = format!("{group}.{name}");
                let room = sums.len() < MAX_COUNTERS;
                match sums.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum = sum.saturating_add(count),
                    None if room => sums.push((name, count)),
                    None => {}
                }
            }
        }
    }
    let mut text = String::new();
    for (name, sum) in sums {
        let _ = write!(text, "{}{name}={sum}", if text.is_empty() { "" } else { " " });
        if text.len() > MAX_DIGEST {
            break;
        }
    }
    printable(&text, MAX_DIGEST)
}
