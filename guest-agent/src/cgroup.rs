//! cgroup v2 inside the guest: one group for the whole sandbox, one below it per execution.
//!
//! ```text
//!   <root>/agent          the agent itself, where it is init: protected
//!   <root>/warm           interpreters that wait for an execution: last in line for the processor
//!   <root>/sandbox        the sandbox's limits
//!   <root>/sandbox/e<N>   one execution: its limits, its usage, its end
//! ```
//!
//! Where the place has no usable cgroup, [`Cgroups`] says so and hands out nothing.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rekindle_protocol::wire;
use tokio::io::Interest;

use crate::watched::watch;

/// Memory that executions can never take from the agent and the kernel.
const RESERVED_MEMORY: u64 = 48 * 1024 * 1024;
/// How long a killed group may take to become empty.
const EMPTY_DEADLINE: Duration = Duration::from_secs(10);

/// The controllers an execution is limited by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controllers {
    /// `memory`.
    pub memory: bool,
    /// `pids`.
    pub pids: bool,
    /// `cpu`.
    pub cpu: bool,
}

/// The sandbox's group, if there is one.
#[derive(Debug)]
pub struct Cgroups {
    sandbox: Option<PathBuf>,
    warm: Option<(PathBuf, File)>,
    /// The list of processes of the group above all others, which the kernel asks for permission whenever a
    /// process moves from one to another. While it is open the kernel does not make it anew each time.
    _root: Option<File>,
    controllers: Controllers,
    /// Read once: a clone has as much as its template.
    total_memory: u64,
}

impl Cgroups {
    /// Sets up the groups below `root`; any failure means: no cgroups here.
    pub fn open(root: Option<&Path>, init: bool) -> Self {
        let nowhere = Self {
            sandbox: None,
            warm: None,
            _root: None,
            controllers: Controllers::default(),
            total_memory: 0,
        };
        let Some(root) = root else { return nowhere };
        match Self::set_up(root, init) {
            Ok(cgroups) => cgroups,
            Err(error) => {
                eprintln!("rekindle-agent: no cgroups at {}: {error}", root.display());
                nowhere
            }
        }
    }

    fn set_up(root: &Path, init: bool) -> io::Result<Self> {
        if init {
            let agent = root.join("agent");
            create_dir(&agent)?;
            fs::write(agent.join("cgroup.procs"), "0")?;
        }
        let available = fs::read_to_string(root.join("cgroup.controllers"))?;
        let sandbox = root.join("sandbox");
        create_dir(&sandbox)?;
        // Without it nothing can be killed whole, and the process group does as well.
        fs::metadata(sandbox.join("cgroup.kill"))?;
        let enabled = |name: &str| {
            available.split_ascii_whitespace().any(|controller| controller == name)
                && [root, &sandbox]
                    .iter()
                    .all(|dir| fs::write(dir.join("cgroup.subtree_control"), format!("+{name}")).is_ok())
        };
        let controllers =
            Controllers { memory: enabled("memory"), pids: enabled("pids"), cpu: enabled("cpu") };
        if init && controllers.memory {
            fs::write(root.join("agent/memory.min"), RESERVED_MEMORY.to_string())?;
        }
        let warm = root.join("warm");
        create_dir(&warm)?;
        if controllers.cpu {
            fs::write(warm.join("cpu.weight"), "1")?;
        }
        let warm = Some((warm.clone(), File::open(&warm)?));
        let root = File::open(root.join("cgroup.procs")).ok();
        Ok(Self { sandbox: Some(sandbox), warm, _root: root, controllers, total_memory: total_memory()? })
    }

    /// What can be limited here.
    pub fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Whether executions get a group of their own.
    pub fn usable(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Where the whole sandbox is limited, as far as it can be here.
    ///
    /// # Errors
    /// When a limit that can be enforced here cannot be reached.
    pub fn sandbox_limits(&self) -> io::Result<SandboxLimits> {
        let open = |enabled: bool, name: &str| match &self.sandbox {
            Some(sandbox) if enabled => File::options().write(true).open(sandbox.join(name)).map(Some),
            _ => Ok(None),
        };
        let reserved = RESERVED_MEMORY + self.warm_memory();
        Ok(SandboxLimits {
            memory: open(self.controllers.memory, "memory.max")?,
            most_memory: self.total_memory.saturating_sub(reserved).max(self.total_memory / 2),
            pids: open(self.controllers.pids, "pids.max")?,
            cpu: open(self.controllers.cpu, "cpu.max")?,
        })
    }

    /// The group of interpreters that wait.
    pub fn warm(&self) -> Option<BorrowedFd<'_>> {
        self.warm.as_ref().map(|(_, dir)| dir.as_fd())
    }

    /// What they hold of the guest's memory, in bytes.
    fn warm_memory(&self) -> u64 {
        let anonymous = |(path, _): &(PathBuf, File)| keyed_value(&path.join("memory.stat"), "anon");
        self.warm.as_ref().and_then(anonymous).unwrap_or(0)
    }

    /// Makes the group of execution `id`. `None` where there are no cgroups.
    ///
    /// # Errors
    /// When the group or its limits cannot be made.
    pub fn create(&self, id: u64, memory_bytes: u64, pids: u32) -> io::Result<Option<ExecutionGroup>> {
        let Some(sandbox) = &self.sandbox else { return Ok(None) };
        let path = sandbox.join(format!("e{id}"));
        fs::create_dir(&path)?;
        // Opened now, because a program's caller waits for what is done with them at its start and its end.
        let peak = self.controllers.memory.then(|| File::open(path.join("memory.peak")).ok()).flatten();
        let group = ExecutionGroup {
            dir: File::open(&path)?,
            procs: File::options().write(true).open(path.join("cgroup.procs"))?,
            cpu: File::open(path.join("cpu.stat"))?,
            peak,
            path,
            controllers: self.controllers,
        };
        if self.controllers.memory {
            fs::write(group.path.join("memory.oom.group"), "1")?;
        }
        group.limit(memory_bytes, pids)?;
        Ok(Some(group))
    }
}

/// The limits of the whole sandbox, open for writing.
#[derive(Debug)]
pub struct SandboxLimits {
    memory: Option<File>,
    /// What the agent, the kernel and interpreters that wait leave of the guest's memory.
    most_memory: u64,
    pids: Option<File>,
    cpu: Option<File>,
}

impl SandboxLimits {
    /// Sets them.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn set(&self, limits: &wire::SandboxLimits) -> io::Result<()> {
        let write = |file: &Option<File>, value: String| match file {
            Some(file) => file.write_all_at(value.as_bytes(), 0),
            None => Ok(()),
        };
        let memory = if limits.memory_bytes == 0 { u64::MAX } else { limits.memory_bytes };
        write(&self.memory, memory.min(self.most_memory).to_string())?;
        write(&self.pids, if limits.pids == 0 { "max".into() } else { limits.pids.to_string() })?;
        let quota = match limits.milli_cpus {
            0 => "max 100000".into(),
            millis => format!("{} 100000", u64::from(millis) * 100),
        };
        write(&self.cpu, quota)
    }
}

/// The group of one execution. Dropping it removes it if it is empty.
#[derive(Debug)]
pub struct ExecutionGroup {
    path: PathBuf,
    dir: File,
    procs: File,
    cpu: File,
    peak: Option<File>,
    controllers: Controllers,
}

impl ExecutionGroup {
    /// Limits it; 0 is no limit of its own.
    ///
    /// # Errors
    /// When a limit cannot be written.
    pub fn limit(&self, memory_bytes: u64, pids: u32) -> io::Result<()> {
        if self.controllers.memory && memory_bytes > 0 {
            fs::write(self.path.join("memory.max"), memory_bytes.to_string())?;
        }
        if self.controllers.pids && pids > 0 {
            fs::write(self.path.join("pids.max"), pids.to_string())?;
        }
        Ok(())
    }

    /// By which the kernel knows it: the inode of its directory.
    pub fn id(&self) -> Option<u64> {
        self.dir.metadata().ok().map(|dir| dir.ino())
    }

    /// Whether it is still there: a root user inside the guest may have removed it.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The directory, for starting a process inside.
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Moves a process in, with all its threads.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_in(&self, pid: i32) -> io::Result<()> {
        self.procs.write_all_at(pid.to_string().as_bytes(), 0)
    }

    /// Kills every process in it.
    pub fn kill(&self) {
        // The group may have been removed by a root user inside the guest; then there is nothing to kill.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let list = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// CPU used by everything that ever ran in it, in microseconds.
    pub fn cpu_micros(&self) -> Option<u64> {
        value_of(&read_short(&self.cpu)?, "usage_usec")
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_memory_bytes(&self) -> Option<u64> {
        read_short(self.peak.as_ref()?)?.trim().parse().ok()
    }

    /// Whether the out-of-memory killer has been at work in it.
    pub fn ran_out_of_memory(&self) -> bool {
        self.controllers.memory
            && keyed_value(&self.path.join("memory.events"), "oom_kill").is_some_and(|kills| kills > 0)
    }

    /// Waits until nothing runs in it any more.
    pub async fn empty(&self) -> io::Result<()> {
        let events = watch(File::open(self.path.join("cgroup.events"))?, Interest::PRIORITY)?;
        loop {
            // Reading through the watched descriptor arms the next notification.
            let text = read_short(events.get_ref()).ok_or(io::ErrorKind::InvalidData)?;
            if value_of(&text, "populated") == Some(0) {
                return Ok(());
            }
            events.ready(Interest::PRIORITY).await?.clear_ready();
        }
    }

    /// Removes it after a kill, once it is empty.
    pub async fn close_killed(self) {
        if !matches!(tokio::time::timeout(EMPTY_DEADLINE, self.empty()).await, Ok(Ok(()))) {
            eprintln!("rekindle-agent: {} did not become empty", self.path.display());
        }
    }

    /// Removes it now, or in the background when something still runs in it. Blocks.
    pub fn close(self) {
        if fs::remove_dir(&self.path).is_err() {
            tokio::spawn(async move {
                let _ = self.empty().await;
            });
        }
    }
}

impl Drop for ExecutionGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// The number behind `key` in a file of `key number` lines.
fn keyed_value(path: &Path, key: &str) -> Option<u64> {
    value_of(&fs::read_to_string(path).ok()?, key)
}

/// The start of a file that is open, from its beginning: the kernel makes it anew for every reader.
fn read_short(file: &File) -> Option<String> {
    let mut text = [0; 1024];
    let n = file.read_at(&mut text, 0).ok()?;
    String::from_utf8(text[..n].to_vec()).ok()
}

/// The number behind `key` in `key number` lines.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok();
    text.split('\n').find_map(value)
}

fn total_memory() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("/proc/meminfo has no MemTotal"))
}
