//! What the contract needs to know about an engine under test: files to boot from, and how to tell that
//! a guest answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rekindle::engine::{
    BootSpec, BoxFuture, ByteStream, Engine, Hardware, IoThrottle, Machine, MachineHome, RestoreSpec,
    SnapshotFiles,
};
use rekindle::host::process::RunAs;
use rekindle::host::scratch::ScratchMaker;
use tempfile::TempDir;

/// Whether the guest at the other end of a stream answers, and the stream's orderly end.
pub type Probe = fn(Box<dyn ByteStream>) -> BoxFuture<'static, Result<(), String>>;

/// Scratch disks of the machines under test, in MiB.
const SCRATCH_MIB: u64 = 64;

/// The user of a bench's first machine; every further one has the next.
pub const FIRST_USER: u32 = 61_000;

/// An engine on the bench.
pub struct Bench {
    pub engine: Arc<dyn Engine>,
    pub kernel: PathBuf,
    pub image: PathBuf,
    pub memory_mib: u32,
    pub probe: Probe,
    pub dir: TempDir,
    pub machines: AtomicU32,
}

impl Bench {
    pub fn new(
        engine: Arc<dyn Engine>,
        kernel: PathBuf,
        image: PathBuf,
        memory_mib: u32,
        probe: Probe,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { engine, kernel, image, memory_mib, probe, dir, machines: AtomicU32::new(0) }
    }

    /// A work directory with a scratch disk in it.
    fn home(&self) -> (MachineHome, PathBuf) {
        let number = self.machines.fetch_add(1, Ordering::Relaxed);
        let work_dir = self.dir.path().join(format!("machine-{number}"));
        fs::create_dir(&work_dir).expect("made");
        let scratch = work_dir.join("scratch");
        let maker = ScratchMaker::new(&self.dir.path().join("blanks"));
        maker.make(SCRATCH_MIB, &scratch).expect("a scratch disk");
        // As root every machine gets a user of its own; otherwise there is only ours.
        let root = nix::unistd::geteuid().is_root();
        let run_as = root.then(|| RunAs { uid: FIRST_USER + number, gid: FIRST_USER });
        let deadline = Duration::from_secs(60);
        (MachineHome { work_dir, cgroup: None, run_as, io: IoThrottle::default(), deadline }, scratch)
    }

    fn hardware(&self, scratch: PathBuf) -> Hardware {
        Hardware { vcpus: 1, memory_mib: self.memory_mib, image: self.image.clone(), scratch }
    }

    pub fn boot_spec(&self, snapshot_dir: Option<&Path>) -> BootSpec {
        let (home, scratch) = self.home();
        BootSpec {
            hardware: self.hardware(scratch),
            home,
            kernel: self.kernel.clone(),
            kernel_args: Vec::new(),
            snapshot_dir: snapshot_dir.map(Path::to_owned),
        }
    }

    pub fn restore_spec(&self, snapshot: &SnapshotFiles) -> RestoreSpec {
        let (home, scratch) = self.home();
        RestoreSpec { hardware: self.hardware(scratch), home, snapshot: snapshot.clone() }
    }

    /// Dials and asks, again until the guest is up.
    pub async fn answers(&self, machine: &dyn Machine) -> Result<(), String> {
        let stream = machine.dial().await.map_err(|error| error.to_string())?;
        let answered = tokio::time::timeout(Duration::from_secs(90), (self.probe)(stream)).await;
        answered.unwrap_or_else(|_| Err(format!("no answer; last words: {}", machine.last_words())))
    }

    /// A snapshot of a guest that answers, in a directory of its own.
    pub async fn snapshot(&self, name: &str) -> SnapshotFiles {
        self.snapshot_bounded(name, IoThrottle::default()).await
    }

    /// The same of a guest whose scratch disk is held to `io`.
    pub async fn snapshot_bounded(&self, name: &str, io: IoThrottle) -> SnapshotFiles {
        let dir = self.dir.path().join(name);
        fs::create_dir(&dir).expect("made");
        let mut spec = self.boot_spec(Some(&dir));
        spec.home.io = io;
        let started = self.engine.launch(spec).await.expect("launched");
        self.answers(&*started.machine).await.expect("the template answers");
        let files = started.machine.snapshot().await.expect("frozen");
        started.machine.kill().await;
        for file in [&files.memory, &files.state] {
            fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o444))
                .expect("read-only");
        }
        files
    }
}
