//! What each tenant has used, for whoever sends the bill: sums that survive the supervisor.
//!
//! ```text
//! a sandbox ends ──▶ one line more ──▶ many lines ──▶ a thread writes the sums aside ──▶ renamed: one line a tenant
//! ```
//!
//! One line is appended when a sandbox ends; when the ledger is opened, and whenever it has grown, the sums take the
//! place of the lines. Sandboxes that a killed supervisor still had are not in it. One supervisor has it at a time:
//! two would each write over what the other added.
//!
//! A damaged line costs itself and nothing else: whatever bytes it holds it is reported and left out, and a line
//! that could not be written whole is ended before the next one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::network::DayCost;

/// Lines beyond the sums after which they are written again. Some two hundred bytes each.
const MAX_LINES: usize = 10_000;

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
    /// A newer version has written it.
    #[error(
        "line {line} of the ledger {} was written by a newer version of this program: {what}\nhint: use that version, or move the file away to begin a new one",
        path.display()
    )]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// What this version does not know.
        what: String,
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
    /// Connections to the outside.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connections: u64,
    /// Requests of plain HTTP.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub network_requests: u64,
    /// Bytes that programs sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub network_bytes_up: u64,
    /// Bytes that programs were sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub network_bytes_down: u64,
    /// What was spent at the gateway, in the operator's units.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gateway_cost: u64,
    /// The last day of UTC on which something was, since 1970.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gateway_day: u64,
    /// How much on that day.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gateway_day_cost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TenantUsage {
    /// What was spent at the gateway on the last day that anything was.
    pub(super) fn gateway_day(&self) -> DayCost {
        DayCost { day: self.gateway_day, cost: self.gateway_day_cost }
    }

    fn add(&mut self, more: &Self) {
        let Self {
            sandboxes,
            executions,
            running_millis,
            cpu_micros,
            memory_mib_seconds,
            bytes_in,
            bytes_out,
            connections,
            network_requests,
            network_bytes_up,
            network_bytes_down,
            gateway_cost,
            gateway_day,
            gateway_day_cost,
        } = self;
        if more.gateway_day > *gateway_day {
            (*gateway_day, *gateway_day_cost) = (more.gateway_day, more.gateway_day_cost);
        } else if more.gateway_day == *gateway_day {
            *gateway_day_cost = gateway_day_cost.saturating_add(more.gateway_day_cost);
        }
        for (sum, part) in [
            (sandboxes, more.sandboxes),
            (executions, more.executions),
            (running_millis, more.running_millis),
            (cpu_micros, more.cpu_micros),
            (memory_mib_seconds, more.memory_mib_seconds),
            (bytes_in, more.bytes_in),
            (bytes_out, more.bytes_out),
            (connections, more.connections),
            (network_requests, more.network_requests),
            (network_bytes_up, more.network_bytes_up),
            (network_bytes_down, more.network_bytes_down),
            (gateway_cost, more.gateway_cost),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// The format of lines. Those of format 1 do not say it.
const FORMAT: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    tenant: String,
    #[serde(flatten)]
    usage: TenantUsage,
    /// What this version does not know.
    #[serde(flatten, skip_serializing)]
    more: BTreeMap<String, Value>,
}

/// What a line turns out to be.
#[derive(Debug)]
enum Entry {
    Usage(Line),
    Damaged(serde_json::Error),
    /// It says more than this version understands, or says it differently.
    Newer(String),
}

impl Entry {
    fn parse(line: &[u8]) -> Self {
        let numbered: Option<Numbered> = serde_json::from_slice(line).ok();
        if let Some(Numbered { format }) = numbered.filter(|numbered| numbered.format != FORMAT) {
            return Self::Newer(format!("its format is {format}, and this version knows {FORMAT}"));
        }
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => match line.more.keys().find(|key| *key != "format") {
                Some(key) => Self::Newer(format!("it has {key:.40}")),
                None => Self::Usage(line),
            },
            Err(error) => Self::Damaged(error),
        }
    }
}

/// What a line would add to the sums; for fuzzing.
pub(crate) fn read_line(line: &[u8]) -> Option<(String, TenantUsage)> {
    match Entry::parse(line) {
        Entry::Usage(line) => Some((line.tenant, line.usage)),
        Entry::Damaged(_) | Entry::Newer(_) => None,
    }
}

/// What a line of any format may have.
#[derive(Deserialize)]
struct Numbered {
    format: u64,
}

/// The sums.
#[derive(Debug)]
pub struct Ledger {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    sums: BTreeMap<String, TenantUsage>,
    file: Option<Kept>,
    /// Held for as long as the ledger is open. Beside the file, which is replaced when it is opened.
    _locks: Vec<File>,
}

impl Ledger {
    /// Sums that nobody keeps.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { inner: Arc::new(Mutex::new(Inner { sums: BTreeMap::new(), file: None, _locks: Vec::new() })) }
    }

    /// Opens the ledger in a file, which is made when it is not there.
    ///
    /// # Errors
    /// When another supervisor has it, or the file cannot be read or written. Lines that make no sense, such as one
    /// that was cut short by a crash, are left out.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Self::open_with(path, BTreeSet::from([path.with_extension("lock")]))
    }

    /// The same for the supervisor of a data directory, which has one ledger, wherever that is.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_for(path: &Path, data: &Path) -> Result<Self, LedgerError> {
        Self::open_with(path, BTreeSet::from([path.with_extension("lock"), data.join("usage.lock")]))
    }

    fn open_with(path: &Path, locks: BTreeSet<PathBuf>) -> Result<Self, LedgerError> {
        let failed = |operation| move |source| LedgerError::File { operation, path: path.to_owned(), source };
        let lock = |at: PathBuf| {
            let lock = File::create(at).map_err(failed("lock"))?;
            match lock.try_lock() {
                Ok(()) => Ok(lock),
                Err(TryLockError::WouldBlock) => Err(LedgerError::Taken { path: path.to_owned() }),
                Err(TryLockError::Error(error)) => Err(failed("lock")(error)),
            }
        };
        let locks = locks.into_iter().map(lock).collect::<Result<Vec<_>, _>>()?;
        let mut sums: BTreeMap<String, TenantUsage> = BTreeMap::new();
        match File::open(path) {
            Ok(file) => {
                // Split as bytes: what is damaged need not be text.
                for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
                    let line = line.map_err(failed("read"))?;
                    let number = number + 1;
                    match Entry::parse(&line) {
                        Entry::Usage(line) => sums.entry(line.tenant).or_default().add(&line.usage),
                        Entry::Damaged(error) => {
                            tracing::warn!(%error, line = number, "a line of the ledger is damaged and left out");
                        }
                        // Not left out: the sums that take the place of the lines would lack it for ever.
                        Entry::Newer(what) => {
                            return Err(LedgerError::Newer { path: path.to_owned(), line: number, what });
                        }
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("open")(error)),
        }
        let lines = write_aside(path, &sums).map_err(failed("write"))?;
        fs::rename(aside(path), path).map_err(failed("write"))?;
        let file = Kept { path: path.to_owned(), lines, added: 0, most: MAX_LINES, rewriting: None };
        Ok(Self { inner: Arc::new(Mutex::new(Inner { sums, file: Some(file), _locks: locks })) })
    }

    /// Adds what a sandbox has used.
    pub fn add(&self, tenant: &str, usage: &TenantUsage) {
        let mut inner = self.lock();
        let Inner { sums, file, .. } = &mut *inner;
        sums.entry(tenant.to_owned()).or_default().add(usage);
        let Some(file) = file else { return };
        if let Err(error) = file.lines.append(tenant, usage) {
            tracing::error!(%error, tenant, "a sandbox's usage could not be written to the ledger");
        }
        file.added += 1;
        if let Some(meanwhile) = &mut file.rewriting {
            meanwhile.push((tenant.to_owned(), usage.clone()));
        } else if file.added >= file.most.max(sums.len()) {
            file.rewriting = Some(Vec::new());
            let (ledger, path, sums) = (Arc::clone(&self.inner), file.path.clone(), sums.clone());
            // The disk takes its time, and whoever adds does not wait for it.
            let rewrite = move || rewrite(&ledger, &path, &sums);
            if let Err(error) = thread::Builder::new().name("rekindle-ledger".into()).spawn(rewrite) {
                file.rewriting = None;
                tracing::warn!(%error, "the ledger grows on: no thread can be had");
            }
        }
    }

    /// All sums, by tenant.
    #[must_use]
    pub fn sums(&self) -> BTreeMap<String, TenantUsage> {
        self.lock().sums.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a ledger.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    lines: Lines<File>,
    /// Lines since the sums were written.
    added: usize,
    /// How many of them are too many.
    most: usize,
    /// What was added since the sums that are being written were taken.
    rewriting: Option<Vec<(String, TenantUsage)>>,
}

/// Where the sums are written before they take the ledger's name.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Writes the sums aside, whole and on the disk.
fn write_aside(path: &Path, sums: &BTreeMap<String, TenantUsage>) -> io::Result<Lines<File>> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(aside(path))?;
    file.set_len(0)?;
    let mut lines = Lines { file, torn: false };
    for (tenant, usage) in sums {
        lines.append(tenant, usage)?;
    }
    lines.file.sync_all()?;
    Ok(lines)
}

/// Replaces the file by its sums. What was added meanwhile is in the old one, too, until the new one has its name.
fn rewrite(ledger: &Mutex<Inner>, path: &Path, sums: &BTreeMap<String, TenantUsage>) {
    let written = write_aside(path, sums);
    let mut inner = locked(ledger);
    let Some(file) = &mut inner.file else { return };
    let meanwhile = file.rewriting.take().unwrap_or_default();
    // Tried again after as many lines more, whether it succeeds or not.
    file.added = 0;
    let renamed = written.and_then(|mut lines| {
        for (tenant, usage) in &meanwhile {
            lines.append(tenant, usage)?;
        }
        fs::rename(aside(path), path)?;
        Ok(lines)
    });
    match renamed {
        Ok(lines) => file.lines = lines,
        Err(error) => tracing::warn!(%error, "the ledger could not be written again and grows on"),
    }
}

/// A file of lines that may fail in the middle of one, for example on a full disk.
#[derive(Debug)]
struct Lines<W> {
    file: W,
    /// The last line may lack its end.
    torn: bool,
}

impl<W: Write> Lines<W> {
    fn append(&mut self, tenant: &str, usage: &TenantUsage) -> io::Result<()> {
        let mut line = if self.torn { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(
            &mut line,
            &Line { tenant: tenant.to_owned(), usage: usage.clone(), more: BTreeMap::new() },
        )?;
        line.push(b'\n');
        // In one piece, so that a crash cuts at most the last line.
        let written = self.file.write_all(&line);
        self.torn = written.is_err();
        written
    }
}

#[cfg(test)]
mod tests {
    //! Sums that survive.

    use super::*;
    use crate::network::Purse;

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

    const GOLDEN: &str = include_str!("../../tests/golden/0.1.0/usage.jsonl");

    #[test]
    fn a_ledger_of_version_0_1_0_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        fs::write(&path, GOLDEN).expect("written");
        let sums = Ledger::open(&path).expect("opened").sums();
        let acme = TenantUsage {
            sandboxes: 12,
            executions: 340,
            running_millis: 5_600_000,
            cpu_micros: 78_000_000,
            memory_mib_seconds: 2_867_200,
            bytes_in: 1_048_576,
            bytes_out: 4_194_304,
            ..TenantUsage::default()
        };
        assert_eq!((sums.len(), &sums["acme"], sums["local"].sandboxes), (2, &acme, 1));
        assert_eq!(fs::read_to_string(&path).expect("read"), GOLDEN, "and is still written so");
    }

    #[test]
    fn a_ledger_of_a_newer_version_is_refused_and_not_written_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let first = GOLDEN.lines().next().expect("a line");
        for (line, what) in [
            (first.replacen('{', "{\"format\":2,", 1), "its format is 2"),
            ("{\"format\":2,\"sums\":[1,2,3]}".to_owned(), "its format is 2"),
            (first.replacen('{', "{\"gpu_seconds\":7,", 1), "it has gpu_seconds"),
        ] {
            let text = format!("{first}\n{line}\n");
            fs::write(&path, &text).expect("written");
            let error = Ledger::open(&path).expect_err(&line);
            assert!(matches!(&error, LedgerError::Newer { line: 2, .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("read"), text, "it stays as it was");
        }
        fs::write(&path, first.replacen('{', "{\"format\":1,", 1)).expect("written");
        assert_eq!(Ledger::open(&path).expect("known").sums()["acme"].sandboxes, 12);
    }

    #[test]
    fn what_was_spent_on_a_day_outlives_the_supervisor_and_not_the_day() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let spent = |day, cost| TenantUsage {
            gateway_cost: cost,
            gateway_day: day,
            gateway_day_cost: cost,
            ..TenantUsage::default()
        };
        let ledger = Ledger::open(&path).expect("opened");
        for (day, cost) in [(7, 4), (8, 2), (8, 3), (7, 9)] {
            ledger.add("a", &spent(day, cost));
        }
        ledger.add("a", &one());
        drop(ledger);
        let sums = Ledger::open(&path).expect("opened again").sums();
        assert_eq!((sums["a"].gateway_cost, sums["a"].gateway_day()), (18, DayCost { day: 8, cost: 5 }));
        assert_eq!(Purse::after(sums["a"].gateway_day()).spent(8), 5);
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

    #[test]
    fn a_data_directory_has_one_owner_wherever_its_ledger_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let (data, elsewhere) = (dir.path().join("data"), dir.path().join("disk"));
        fs::create_dir(&data).expect("made");
        fs::create_dir(&elsewhere).expect("made");
        let first = Ledger::open_for(&elsewhere.join("usage.jsonl"), &data).expect("opened");
        for path in [data.join("usage.jsonl"), elsewhere.join("other.jsonl")] {
            let refused = Ledger::open_for(&path, &data).expect_err("the directory is taken");
            assert!(matches!(refused, LedgerError::Taken { .. }), "{refused}");
        }
        drop(first);
        Ledger::open_for(&data.join("usage.jsonl"), &data).expect("free again");
    }

    #[test]
    fn a_stray_byte_costs_its_own_line_and_not_the_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let line = "{\"tenant\":\"a\",\"sandboxes\":1,\"executions\":3,\"running_millis\":0,\"cpu_micros\":0,\
                    \"memory_mib_seconds\":0,\"bytes_in\":10,\"bytes_out\":0}\n";
        let content =
            [line.as_bytes(), b"\xff\xfe\0\n", &line.as_bytes()[..20], b"\n\n", line.as_bytes()].concat();
        fs::write(&path, content).expect("written");
        let ledger = Ledger::open(&path).expect("opened");
        assert_eq!(ledger.sums()["a"].sandboxes, 2);
    }

    #[test]
    fn a_ledger_that_is_never_closed_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        let ledger = Ledger::open(&path).expect("opened");
        ledger.lock().file.as_mut().expect("a file").most = 100;
        let lines = || fs::read_to_string(&path).expect("read").lines().count();
        let mut added = 0;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // Until it has been rewritten often, while more is added all the time.
        let mut rewritten = 0;
        while rewritten < 20 {
            assert!(std::time::Instant::now() < deadline, "it is rewritten, and was {rewritten} times");
            let before = lines();
            ledger.add(if added % 2 == 0 { "even" } else { "odd" }, &one());
            added += 1;
            let now = lines();
            rewritten += usize::from(now < before);
        }
        drop(ledger);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let again = loop {
            match Ledger::open(&path) {
                Ok(ledger) => break ledger.sums(),
                // A thread may still be writing.
                Err(LedgerError::Taken { .. }) if std::time::Instant::now() < deadline => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(
            again["even"].sandboxes + again["odd"].sandboxes,
            added,
            "nothing is lost or counted twice"
        );
    }

    /// Takes so many bytes, then fails once as a full disk does.
    struct Full {
        content: Vec<u8>,
        room: Option<usize>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = match self.room {
                None => bytes.len(),
                Some(0) => {
                    self.room = None;
                    return Err(io::ErrorKind::StorageFull.into());
                }
                Some(room) => room.min(bytes.len()),
            };
            self.room = self.room.map(|room| room - taken);
            self.content.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_torn_by_a_full_disk_does_not_take_the_next_one_with_it() {
        let full = Full { content: Vec::new(), room: Some(30) };
        let mut lines = Lines { file: full, torn: false };
        assert!(lines.append("torn", &one()).is_err());
        for _ in 0..2 {
            lines.append("whole", &one()).expect("there is room again");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("usage.jsonl");
        fs::write(&path, &lines.file.content).expect("written");
        let sums = Ledger::open(&path).expect("opened").sums();
        assert_eq!(sums["whole"].sandboxes, 2);
        assert_eq!(sums.len(), 1);
    }
}
