//! A long step: progress on the screen, everything else in a log file.
//!
//! On a terminal a spinner shows the current step and the elapsed time; otherwise plain
//! lines do. Commands write to the log alone; when one fails, the error carries the
//! log's tail and its place.

use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cache::Cache;
use crate::hint::Hint;

/// How often a step that takes long says so where there is no terminal.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How many lines of the log an error shows.
const TAIL_LINES: usize = 20;

/// One long job, such as building the kernel.
pub struct Job {
    name: String,
    step: String,
    started: Instant,
    log_path: PathBuf,
    log: File,
    bar: Option<ProgressBar>,
}

impl Job {
    /// Starts a job with an empty log.
    pub fn start(cache: &Cache, name: &str) -> Result<Self> {
        let log_path = cache.log_path(&name.replace(' ', "-"));
        let log = File::create(&log_path)
            .with_context(|| format!("cannot create the log {}", log_path.display()))
            .hint("make room on the file system of the cache, or set REKINDLE_CACHE")?;
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {prefix}: {msg} [{elapsed_precise}]");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Ok(Self { name: name.to_owned(), step: String::new(), started: Instant::now(), log_path, log, bar })
    }

    /// Names the step that begins now.
    pub fn step(&mut self, step: &str) -> Result<()> {
        step.clone_into(&mut self.step);
        writeln!(self.log, "==> {step}").hint("make room on the file system of the cache")?;
        match &self.bar {
            Some(bar) => bar.set_message(step.to_owned()),
            None => eprintln!("{}: {step}", self.name),
        }
        Ok(())
    }

    /// Runs a command to its end with its output in the log; failure is an error.
    pub fn run(&mut self, command: &mut Command) -> Result<()> {
        let status = self.status(command)?;
        if status.success() {
            return Ok(());
        }
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was killed by signal {signal}"),
            (None, None) => "failed".to_owned(),
        };
        let program = program(command);
        Err(anyhow!(
            "{}: {} failed: {program} {how}\n--- the end of {} ---\n{}\n---",
            self.name,
            self.step,
            self.log_path.display(),
            tail(&self.log_path)
        ))
        .hint(self.explain())
    }

    /// Ends the job with one line about what it made.
    pub fn finish(self, result: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{}: {result} ({seconds:.1} s)", self.name);
    }

    fn status(&mut self, command: &mut Command) -> Result<ExitStatus> {
        writeln!(self.log, "$ {command:?}").hint("make room on the file system of the cache")?;
        let program = program(command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(self.log.try_clone()?)
            .stderr(self.log.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot start {program}"))
            .hint("run `cargo xtask setup` to install what is missing")?;
        if self.bar.is_some() {
            return Ok(child.wait()?);
        }
        let (done, waiting) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let job = &*self;
            scope.spawn(move || {
                while waiting.recv_timeout(HEARTBEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    eprintln!("{}: {} ({} s)", job.name, job.step, job.started.elapsed().as_secs());
                }
            });
            let status = child.wait();
            drop(done);
            Ok(status?)
        })
    }

    /// What to do, read off the log: the tools do not tell apart what a person can mend.
    fn explain(&self) -> String {
        explain(&fs::read_to_string(&self.log_path).unwrap_or_default())
    }
}

/// A command whose process dies with this one, so that a killed build leaves none behind.
pub fn bound_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// The program a person knows: not the wrappers before the last `--` of a bound command.
fn program(command: &Command) -> String {
    let words: Vec<_> = command.get_args().collect();
    let bound = command.get_program() == "setpriv";
    let inner = words.iter().rposition(|word| *word == "--").and_then(|at| words.get(at + 1));
    inner.filter(|_| bound).map_or(command.get_program(), |word| word).to_string_lossy().into_owned()
}

fn explain(log: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| log.contains(word));
    if has(&["No space left on device", "Disk quota exceeded", "free space in"]) {
        "make room on the file system of the cache, or set REKINDLE_CACHE to another one".into()
    } else if has(&["Unable to locate package", "has no installation candidate", "Couldn't find any package"])
    {
        "check the names under `packages` in the recipe against the Debian release it names".into()
    } else if has(&["DO NOT MATCH THE HASHES"]) {
        "the package changed or was damaged on the way; do not use it, check the recipe".into()
    } else if has(&["NewConnectionError", "ConnectTimeoutError", "EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED"]) {
        "the package index cannot be reached: check the network, and the index that `pip3 config list` or \
         `npm config get registry` names"
            .into()
    } else if has(&["No matching distribution found", "code E404", "code ETARGET"]) {
        "check name and version in the recipe; a mirror that pip or npm is configured for may lack it".into()
    } else if has(&[
        "Could not resolve",
        "Temporary failure",
        "Could not connect",
        "Unable to connect",
        "Connection refused",
    ]) {
        "the package mirror cannot be reached: check the network, or set REKINDLE_MIRROR to one that can"
            .into()
    } else {
        "the log has the whole story; `cargo xtask setup` installs missing tools".into()
    }
}

fn tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::render;

    #[test]
    fn a_failing_command_shows_the_end_of_its_log_and_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_path_buf()).unwrap();
        let mut job = Job::start(&cache, "demo").unwrap();
        job.step("breaking").unwrap();
        let error = job.run(Command::new("sh").args(["-c", "echo last words; exit 3"])).unwrap_err();
        let text = render(&error);
        assert!(text.contains("breaking failed: sh ended with code 3"), "{text}");
        assert!(text.contains("last words"), "{text}");
        assert!(text.contains("logs/demo.log"), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
    }

    #[test]
    fn the_wrapper_is_not_what_a_person_reads_about() {
        assert_eq!(program(bound_command("tar").arg("-x")), "tar");
        assert_eq!(
            program(bound_command("unshare").args(["--mount", "--", "mmdebstrap", "-q"])),
            "mmdebstrap"
        );
        assert_eq!(program(&Command::new("curl")), "curl");
    }

    #[test]
    fn a_missing_program_points_at_setup() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_path_buf()).unwrap();
        let mut job = Job::start(&cache, "demo").unwrap();
        let error = job.run(&mut Command::new("/nonexistent/tool")).unwrap_err();
        assert!(render(&error).contains("hint: run `cargo xtask setup`"));
    }

    #[test]
    fn the_usual_failures_have_their_own_hint() {
        assert!(explain("tar: write: No space left on device").contains("make room"));
        assert!(explain("E: Unable to locate package nope").contains("packages"));
        assert!(explain("Temporary failure resolving 'mirror'").contains("REKINDLE_MIRROR"));
        assert!(explain("npm error code ETARGET").contains("check name and version"));
    }
}
