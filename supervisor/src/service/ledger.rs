//! What each tenant has used, for whoever sends the bill: sums that survive the supervisor.
//!
//! One line is appended when a sandbox ends; opening the ledger adds them up and writes the sums back. Sandboxes
//! that a killed supervisor still had are not in it. One supervisor has it at a time: two would each write over
//! what the other added.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another supervisor has it.
    #[error(
        "another supervisor uses the ledger {}\nhint: stop it first, or give this one a data directory of its own with REKINDLE_DATA",
        path.display()
    )]
    Taken {
        /// The ledger.
        path: PathBuf,
    },
    /// The file fails.
    #[error("cannot {operation} the ledger {}", path.display())]
    File {
        /// What could not be done.
        operation: &'static str,
        /// The ledger.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a tenant has used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantUsage {
    /// Sandboxes that have ended.
    pub sandboxes: u64,
    /// Executions in them.
    pub executions: u64,
    /// How long they ran, in milliseconds.
    pub running_millis: u64,
    /// Processor time of their machines, in microseconds.
    pub cpu_micros: u64,
    /// Memory of the machines times the time they ran.
    pub memory_mib_seconds: u64,
    /// Bytes uploaded.
    pub bytes_in: u64,
    /// Bytes downloaded and printed.
    pub bytes_out: u64,
}

impl TenantUsage {
    fn add(&mut self, more: &Self) {
        let Self {
            sandboxes,
            executions,
            running_millis,
            cpu_micros,
            memory_mib_seconds,
            bytes_in,
            bytes_out,
        } = self;
        for (sum, part) in [
            (sandboxes, more.sandboxes),
            (executions, more.executions),
            (running_millis, more.running_millis),
            (cpu_micros, more.cpu_micros),
            (memory_mib_seconds, more.memory_mib_seconds),
            (bytes_in, more.bytes_in),
            (bytes_out, more.bytes_out),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    tenant: String,
    #[serde(flatten)]
    usage: TenantUsage,
}

/// The sums.
#[derive(Debug)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    sums: BTreeMap<String, TenantUsage>,
    file: Option<File>,
    /// Held for as long as the ledger is open. Beside the file, which is replaced when it is opened.
    _lock: Option<File>,
}

impl Ledger {
    /// Sums that nobody keeps.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { inner: Mutex::new(Inner { sums: BTreeMap::new(), file: None, _lock: None }) }
    }

    /// Opens the ledger in a file, which is made when it is not there.
    ///
    /// # Errors
    /// When another supervisor has it, or the file cannot be read or written. A last line that was cut short by a
    /// crash is left out.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |operation| move |source| LedgerError::File { operation, path: path.to_owned(), source };
        let lock = File::create(path.with_extension("lock")).map_err(failed("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LedgerError::Taken { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let mut sums: BTreeMap<String, TenantUsage> = BTreeMap::new();
        match File::open(path) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    let line = line.map_err(failed("read"))?;
                    match serde_json::from_str::<Line>(&line) {
                        Ok(line) => sums.entry(line.tenant).or_default().add(&line.usage),
                        Err(error) => tracing::warn!(%error, "a line of the ledger is damaged and left out"),
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("open")(error)),
        }
        let aside = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(&aside).map_err(failed("write"))?;
        file.set_len(0).map_err(failed("write"))?;
        for (tenant, usage) in &sums {
            write_line(&mut file, tenant, usage).map_err(failed("write"))?;
        }
        file.sync_all().map_err(failed("write"))?;
        fs::rename(&aside, path).map_err(failed("write"))?;
        Ok(Self { inner: Mutex::new(Inner { sums, file: Some(file), _lock: Some(lock) }) })
    }

    /// Adds what a sandbox has used.
    pub fn add(&self, tenant: &str, usage: &TenantUsage) {
        let mut inner = self.lock();
        inner.sums.entry(tenant.to_owned()).or_default().add(usage);
        if let Some(file) = &mut inner.file
            && let Err(error) = write_line(file, tenant, usage)
        {
            tracing::error!(%error, tenant, "a sandbox's usage could not be written to the ledger");
        }
    }

    /// All sums, by tenant.
    #[must_use]
    pub fn sums(&self) -> BTreeMap<String, TenantUsage> {
        self.lock().sums.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_line(file: &mut File, tenant: &str, usage: &TenantUsage) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Line { tenant: tenant.to_owned(), usage: usage.clone() })?;
    line.push(b'\n');
    // In one piece, so that a crash cuts at most the last line.
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    //! Sums that survive.

    use super::*;

    fn one() -> TenantUsage {
        TenantUsage { sandboxes: 1, executions: 3, bytes_in: 10, ..TenantUsage::default() }
    }

    #[test]
    fn sums_survive_a_crash_that_cut_the_last_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let ledger = Ledger::open(&path).expect("opened");
        ledger.add("a", &one());
        ledger.add("a", &one());
        ledger.add("b", &one());
        drop(ledger);
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"{\"tenant\":\"a\",\"sandb").expect("written");
        for _ in 0..2 {
            let again = Ledger::open(&path).expect("opened").sums();
            assert_eq!(again["a"].sandboxes, 2);
            assert_eq!(again["a"].bytes_in, 20);
            assert_eq!(again["b"].executions, 3);
        }
        assert_eq!(fs::read_to_string(&path).expect("read").lines().count(), 2, "it does not grow for ever");
    }

    #[test]
    fn a_second_owner_is_refused_and_the_first_loses_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let first = Ledger::open(&path).expect("opened");
        first.add("a", &one());
        let refused = Ledger::open(&path).expect_err("it is taken");
        assert!(matches!(refused, LedgerError::Taken { .. }), "{refused}");
        first.add("a", &one());
        drop(first);
        assert_eq!(Ledger::open(&path).expect("free again").sums()["a"].sandboxes, 2);
    }
}
