//! The directory of one machine: its sockets, its scratch disk, and the record by which a later supervisor
//! can undo it. Nothing else in the program removes a machine's files. What cannot be removed now, for want of
//! descriptors perhaps, is tried again with the next one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::users::UserLease;
use crate::host::cgroup::CgroupRecord;
use crate::host::process::ProcessIdentity;
use crate::host::undo;
use crate::store::StagingDir;

/// Name of the record inside a machine's directory.
const RECORD: &str = "record.json";
/// How long a killed monitor may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// The format of records. Those of format 1 do not say it; another one is refused.
const FORMAT: u64 = 1;

/// What must be undone if nobody is left who knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The machine's control group.
    pub cgroup: CgroupRecord,
    /// Its monitor.
    pub process: Option<ProcessIdentity>,
}

/// A machine's directory, removed with everything in it when this is closed or dropped.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    /// Whom the machine runs as: nobody else becomes that user while its files are there.
    user: Option<UserLease>,
    /// Where else its monitor writes: it stays while there may be a monitor.
    staging: Option<StagingDir>,
}

impl WorkDir {
    /// Makes the directory; only its owner may look inside.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, user: None, staging: None })
    }

    /// Keeps a user for as long as the directory is there.
    pub(super) fn keep(&mut self, user: UserLease) {
        self.user = Some(user);
    }

    /// Keeps the directory of a snapshot to be for as long as this one is there.
    pub(super) fn write_into(&mut self, staging: Option<StagingDir>) {
        self.staging = staging;
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_record(&self, record: &Record) -> io::Result<()> {
        let (new, path) = (self.path.join("record.new"), self.path.join(RECORD));
        fs::write(&new, serde_json::to_vec(record)?)?;
        fs::rename(new, path)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When something in it cannot be removed now.
    pub fn close(mut self) -> io::Result<()> {
        remove_or_keep(std::mem::take(&mut self.path), self.user.take())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let (path, user, staging) = (std::mem::take(&mut self.path), self.user.take(), self.staging.take());
        if path.as_os_str().is_empty() {
            return;
        }
        undo::later(move || {
            let _staging = staging;
            let shown = path.clone();
            if let Err(error) = remove_or_keep(path, user) {
                tracing::warn!(%error, path = %shown.display(), "a machine's directory was left behind");
            }
        });
    }
}

/// Undoes a machine whose supervisor is gone: its process, its control group, its directory.
///
/// # Errors
/// When something could not be undone; the directory stays then, so that the next start tries again.
pub fn reclaim(path: &Path) -> io::Result<()> {
    reclaim_since(path, boot_time()?)
}

/// The same on a host that runs since `booted`, in seconds since 1970.
fn reclaim_since(path: &Path, booted: i64) -> io::Result<()> {
    let record = path.join(RECORD);
    match fs::read(&record) {
        Ok(text) => match Record::parse(&text) {
            Ok(record) => {
                if let Some(process) = &record.process {
                    process.kill(KILL_GRACE)?;
                }
                record.cgroup.reclaim().map_err(io::Error::other)?;
            }
            // Whatever it names, and why ever it cannot be read: no process and no group outlives the kernel.
            Err(_) if fs::metadata(&record)?.ctime() < booted => {}
            // Its monitor may run: without its directory nobody would ever find it.
            Err(error) => return Err(error),
        },
        // A machine whose record was never written has no process and no group yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    remove(path)
}

impl Record {
    /// Reads a record: whole and of the known format, or not at all.
    pub(crate) fn parse(text: &[u8]) -> io::Result<Self> {
        let refused = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("its record {what}"));
        let mut record: Value =
            serde_json::from_slice(text).map_err(|error| refused(format!("is not understood: {error}")))?;
        let format = record.as_object_mut().and_then(|fields| fields.remove("format"));
        if let Some(format) = format.filter(|format| format.as_u64() != Some(FORMAT)) {
            return Err(refused(format!(
                "has format {format}, and this version knows {FORMAT} alone\n\
                 hint: start the version that made it once, or restart the host"
            )));
        }
        serde_json::from_value(record).map_err(|error| refused(format!("is not understood: {error}")))
    }
}

/// When this host was started.
fn boot_time() -> io::Result<i64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.trim().parse().ok()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/stat does not say when the host was started")
    })
}

/// Directories that could not be removed, each with whom its machine ran as: nobody else becomes that user yet.
static LEFT: Mutex<Vec<(PathBuf, Option<UserLease>)>> = Mutex::new(Vec::new());

fn left() -> MutexGuard<'static, Vec<(PathBuf, Option<UserLease>)>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a directory and those that were left before it; one that cannot be removed is kept in mind.
fn remove_or_keep(path: PathBuf, user: Option<UserLease>) -> io::Result<()> {
    let removed = remove(&path);
    if removed.is_err() {
        left().push((path, user));
        return removed;
    }
    let before = std::mem::take(&mut *left());
    let stubborn = before.into_iter().filter(|(path, _)| remove(path).is_err()).collect::<Vec<_>>();
    left().extend(stubborn);
    removed
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::undo::tests::hold_up;

    const GOLDEN: &str = include_str!("../../tests/golden/0.1.0/record.json");

    fn golden() -> Record {
        let process = ProcessIdentity {
            pid: 4242,
            start_ticks: 987_654_321,
            boot_id: "01234567-89ab-cdef-0123-456789abcdef".into(),
        };
        let dirs = vec!["/sys/fs/cgroup/rekindle/vm-0123456789abcdef".into()];
        Record { cgroup: CgroupRecord { dirs }, process: Some(process) }
    }

    #[test]
    fn a_record_of_version_0_1_0_is_read_as_it_was_written() {
        assert_eq!(Record::parse(GOLDEN.as_bytes()).expect("read"), golden());
        assert_eq!(serde_json::to_string(&golden()).expect("json"), GOLDEN, "and is still written so");
        assert_eq!(
            Record::parse(&GOLDEN.replacen('{', "{\"format\":1,", 1).into_bytes()).expect("read"),
            golden()
        );
    }

    #[test]
    fn a_machine_whose_record_is_not_understood_is_left_alone_until_the_host_was_restarted() {
        let dir = tempfile::tempdir().expect("a directory");
        let newer = GOLDEN.replacen('{', "{\"format\":2,", 1);
        let more = GOLDEN.replacen('{', "{\"network\":\"ns\",", 1);
        let deeper = GOLDEN.replacen("\"pid\"", "\"signal\":9,\"pid\"", 1);
        for (at, text) in
            [newer.as_str(), &more, &deeper, &GOLDEN[..60], "", "[]", "{}"].into_iter().enumerate()
        {
            let path = dir.path().join(at.to_string());
            fs::create_dir(&path).expect("made");
            fs::write(path.join(RECORD), text).expect("written");
            let error = reclaim_since(&path, 0).expect_err(text);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text}: {error}");
            assert!(path.join(RECORD).exists(), "{text}: nothing is removed");
            reclaim_since(&path, i64::MAX).expect("nothing of it can run any more");
            assert!(!path.exists(), "{text}");
        }
        let error = Record::parse(newer.as_bytes()).expect_err("newer").to_string();
        assert!(error.contains("format 2") && error.contains("hint: "), "{error}");
    }

    #[test]
    fn a_machine_without_a_record_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vm");
        fs::create_dir(&path).expect("made");
        reclaim(&path).expect("removed");
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_machine_that_is_given_up_is_removed_off_the_runtime() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vm");
        let held = hold_up();
        drop(WorkDir::create(path.clone()).expect("made"));
        assert!(path.exists(), "this thread has not waited for the disk");
        drop(held);
        undo::settle();
        assert!(!path.exists(), "and it is removed all the same");
    }
}
