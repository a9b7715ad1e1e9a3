//! What one would pick instead, on the same root file system and in the same run: a fresh process under
//! bubblewrap, a fresh container with crun. A machine that boots is the scenario `cold_boot`.
//!
//! Both run the same programs as a sandbox: `echo` and a line of Python, from nothing to the end of the
//! program. They use the tree the image was packed from; what they write goes to memory.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::Scenario;
use crate::record::{Kind, Record, Sample};

/// The two programs: a name, its words and what it prints.
const PROGRAMS: [(&str, &str, &[&str], &str); 2] = [
    ("output", "to the end of `echo`", &["/bin/sh", "-c", "echo ready"], "ready\n"),
    ("python", "to the end of a line of Python", &["/usr/bin/python3", "-c", "print(6 * 7)"], "42\n"),
];

/// A way to run a program that is not Rekindle's.
#[derive(Debug)]
pub struct Alternative {
    /// Its scenario.
    pub scenario: Scenario,
    tree: PathBuf,
    bundle: TempDir,
    /// A view of the host in which crun accepts its control groups.
    view: Option<View>,
    runs: u32,
}

/// A mount namespace of its own, kept by a process that sleeps.
#[derive(Debug)]
struct View(Child);

impl View {
    /// crun refuses a host whose unified hierarchy, beside the older ones, has controllers. In this view it is
    /// not there; nothing changes for the host.
    fn without_unified_hierarchy() -> Result<Self> {
        let script = "umount /sys/fs/cgroup/unified && echo ready && exec sleep infinity";
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut view = Self(child);
        let mut ready = [0; 6];
        let output = view.0.stdout.as_mut().context("it has an output")?;
        output.read_exact(&mut ready).context("crun refuses this host's control groups")?;
        Ok(view)
    }

    /// Runs a program there.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.0.id())).arg("--");
        command
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Alternative {
    /// Makes sure that it works here at all.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn find(scenario: Scenario, tree: Option<&Path>) -> Result<Self> {
        let tree = tree.context("the tree of the root file system is not there (--tree)")?;
        ensure!(tree.join("usr/bin/python3").exists(), "{} is no root file system", tree.display());
        let program = if scenario == Scenario::Bubblewrap { "bwrap" } else { "crun" };
        let version = Command::new(program).arg("--version").stdin(Stdio::null()).output();
        ensure!(
            version.is_ok_and(|version| version.status.success()),
            "{program} is not installed; `cargo xtask bench` installs it as root"
        );
        let bundle = tempfile::Builder::new().prefix("rekindle-bench-").tempdir()?;
        let mut alternative = Self { scenario, tree: tree.to_owned(), bundle, view: None, runs: 0 };
        if alternative.try_all().is_err() && scenario == Scenario::Container {
            alternative.view = Some(View::without_unified_hierarchy()?);
        }
        alternative.try_all()?;
        Ok(alternative)
    }

    fn try_all(&mut self) -> Result<()> {
        for program in &PROGRAMS {
            self.run(program)?;
        }
        Ok(())
    }

    /// Runs each program once.
    ///
    /// # Errors
    /// When one does not print what it should.
    pub fn sample(&mut self, record: &mut Record) -> Result<()> {
        for program in &PROGRAMS {
            let took = self.run(program)?;
            let (name, what, ..) = program;
            let kind = Kind::time(self.scenario, &format!("{}_{name}", self.scenario), what);
            record.add(kind, Sample::of(took));
        }
        Ok(())
    }

    fn run(&mut self, program: &(&str, &str, &[&str], &str)) -> Result<Duration> {
        let (_, _, words, expected) = program;
        self.runs += 1;
        let mut command = match self.scenario {
            Scenario::Bubblewrap => self.bubblewrap(words),
            _ => self.container(words)?,
        };
        command.stdin(Stdio::null());
        let begun = Instant::now();
        let output = command.output()?;
        let took = begun.elapsed();
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("nothing was said");
        ensure!(output.status.success() && output.stdout == expected.as_bytes(), "it failed: {last}");
        Ok(took)
    }

    fn bubblewrap(&self, words: &[&str]) -> Command {
        let mut command = Command::new("bwrap");
        command.args([
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--clearenv",
            "--cap-drop",
            "ALL",
        ]);
        command.arg("--ro-bind").arg(&self.tree).arg("/");
        command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home"]);
        command.args(["--setenv", "PATH", "/usr/bin:/bin", "--"]).args(words);
        command
    }

    /// A bundle of its own for every run, made before the clock starts.
    fn container(&self, words: &[&str]) -> Result<Command> {
        let state = self.bundle.path().join("state");
        let config = config(&self.tree, words);
        fs::write(self.bundle.path().join("config.json"), config.to_string())?;
        let mut command = match &self.view {
            Some(view) => view.enter(),
            None => Command::new("env"),
        };
        // Without limits: which generation of control groups crun could use differs between hosts.
        command.arg("crun").arg("--cgroup-manager=disabled");
        command.arg("--root").arg(&state).arg("run").arg("--bundle").arg(self.bundle.path());
        command.arg(format!("rekindle-bench-{}-{}", std::process::id(), self.runs));
        Ok(command)
    }
}

/// What the runtime specification asks for: namespaces of its own and no capabilities.
fn config(tree: &Path, words: &[&str]) -> serde_json::Value {
    let mount = |target: &str, kind: &str, options: &[&str]| json!({ "destination": target, "type": kind, "source": kind, "options": options });
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": words,
            "env": ["PATH=/usr/bin:/bin", "HOME=/tmp"],
            "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": { "path": tree, "readonly": true },
        "hostname": "bench",
        "mounts": [
            mount("/proc", "proc", &[]),
            mount("/dev", "tmpfs", &["nosuid", "mode=755", "size=65536k"]),
            mount("/tmp", "tmpfs", &["nosuid", "nodev"]),
        ],
        "linux": {
            "namespaces": namespaces,
        },
    })
}
