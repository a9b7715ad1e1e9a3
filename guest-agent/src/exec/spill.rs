//! Full output of executions, spilled to files the caller can download when the result had to be shortened.
//!
//! Small output stays in memory and never touches the disk; a file appears only when something was cut or
//! the output is large. The number of executions kept and the bytes of each stream are capped.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rekindle_protocol::limits::MAX_KEPT_OUTPUTS;
use rekindle_protocol::wire::OutputStream;

/// Output up to this size, of both streams together, waits in memory for the decision whether it is needed.
const IN_MEMORY: usize = 32 * 1024;

/// The directories of executions whose output was spilled, oldest first.
pub struct SpilledOutputs {
    root: PathBuf,
    kept: Mutex<VecDeque<u64>>,
}

impl SpilledOutputs {
    /// Starts with nothing kept, below `state`.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn open(state: &Path) -> io::Result<Self> {
        let root = state.join("output");
        fs::create_dir_all(&root)?;
        Ok(Self { root, kept: Mutex::default() })
    }

    /// Counts what an earlier machine has left as kept; the highest id among it.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn adopt(&self) -> io::Result<u64> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            // Whatever else is there is not the agent's.
            found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        found.sort_unstable();
        let highest = found.last().copied().unwrap_or(0);
        found.into_iter().for_each(|id| self.remember(id));
        Ok(highest)
    }

    /// Where `stream` of execution `id` would be kept.
    pub fn path(&self, id: u64, stream: &str) -> PathBuf {
        self.root.join(id.to_string()).join(stream)
    }

    /// Counts execution `id` as kept and removes the oldest beyond the cap.
    pub fn remember(&self, id: u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(id);
        while kept.len() > MAX_KEPT_OUTPUTS {
            if let Some(oldest) = kept.pop_front() {
                let _ = fs::remove_dir_all(self.root.join(oldest.to_string()));
            }
        }
    }
}

/// The bytes of both streams of an execution. Together at most [`IN_MEMORY`] of them are in no file yet, which are the
/// last ones: whoever was told of older output finds it there while the program runs.
pub struct Spills {
    stdout: Spill,
    stderr: Spill,
}

impl Spills {
    /// Keeps these.
    pub fn new(stdout: Spill, stderr: Spill) -> Self {
        Self { stdout, stderr }
    }

    /// Takes the next bytes of a stream. Says whether there is more than may wait, and must be written now, which
    /// blocks.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) -> bool {
        self.of(stream).push(bytes);
        self.stdout.waiting.len() + self.stderr.waiting.len() > IN_MEMORY
    }

    /// Writes what waits to the files.
    pub fn write(&mut self) {
        for spill in [&mut self.stdout, &mut self.stderr] {
            if !spill.waiting.is_empty() {
                spill.write();
            }
        }
    }

    /// Hands out a stream that has ended.
    pub fn take(&mut self, stream: OutputStream) -> Spill {
        std::mem::replace(self.of(stream), Spill::new(PathBuf::new(), 0))
    }

    fn of(&mut self, stream: OutputStream) -> &mut Spill {
        match stream {
            OutputStream::Stderr => &mut self.stderr,
            OutputStream::Stdout | OutputStream::Unspecified => &mut self.stdout,
        }
    }
}

/// Keeps the bytes of one stream while its program runs.
pub struct Spill {
    path: PathBuf,
    cap: u64,
    kept: u64,
    waiting: Vec<u8>,
    file: Option<File>,
    /// The disk is full or refuses: what was kept so far is all there will be.
    stuck: bool,
}

impl Spill {
    /// Keeps up to `cap` bytes, in `path` if it comes to that.
    pub fn new(path: PathBuf, cap: u64) -> Self {
        Self { path, cap, kept: 0, waiting: Vec::new(), file: None, stuck: false }
    }

    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]) {
        if self.stuck {
            return;
        }
        let room = self.cap.saturating_sub(self.kept + self.waiting.len() as u64);
        let fitting = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.waiting.extend_from_slice(&bytes[..fitting]);
    }

    /// Writes what waits to the file.
    fn write(&mut self) {
        if let Err(error) = self.try_write() {
            eprintln!("rekindle-agent: output is no longer kept in {}: {error}", self.path.display());
            self.stuck = true;
        }
        self.waiting.clear();
    }

    fn try_write(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                if let Some(dir) = self.path.parent() {
                    fs::create_dir_all(dir)?;
                }
                self.file.insert(File::create(&self.path)?)
            }
        };
        let mut unwritten = self.waiting.as_slice();
        while !unwritten.is_empty() {
            let n = file.write(unwritten)?;
            self.kept += n as u64;
            unwritten = &unwritten[n..];
        }
        Ok(())
    }

    /// Whether [`finish`](Self::finish) has to touch the disk.
    pub fn blocks(&self, needed: bool) -> bool {
        needed || self.file.is_some()
    }

    /// Ends the stream. Where nothing was cut the file is not needed; otherwise it says where, and how much.
    pub fn finish(mut self, needed: bool) -> Option<(PathBuf, u64)> {
        if needed {
            self.write();
            self.file.is_some().then_some((self.path, self.kept))
        } else {
            if self.file.is_some() {
                let _ = fs::remove_file(&self.path);
                // Empty unless the other stream is kept.
                let _ = self.path.parent().map(fs::remove_dir);
            }
            None
        }
    }
}
