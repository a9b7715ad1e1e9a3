//! Firecracker's floor: its jailer, started bare on a prepared directory, two requests, one connection.
//!
//! The jail's files are put in place beforehand, as hard links where the file system allows it: making them
//! visible is the supervisor's way and not Firecracker's.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rekindle::engine::firecracker::{self, FoundFirecracker};
use rekindle::engine::{Stopwatch, Timings};
use rekindle::host::process::RunAs;
use rekindle::host::scratch;
use tokio::net::UnixStream;

use super::{Monitor, converse};
use crate::bed::{Bed, PATIENCE, user};

/// Between two looks for a socket that appears.
const LOOK: Duration = Duration::from_micros(200);

/// The programs, and as whom they run.
#[derive(Debug)]
pub struct FirecrackerFloor {
    programs: FoundFirecracker,
    user: RunAs,
}

impl FirecrackerFloor {
    pub(super) async fn learn(_bed: &Bed) -> Result<Self> {
        let user = user().context("the jailer needs root")?;
        Ok(Self { programs: firecracker::find(None)?, user })
    }

    pub(super) async fn start(&self, bed: &Bed) -> Result<(Timings, Duration)> {
        // Beside the snapshot, so that its files can be linked.
        let place = bed.snapshot.dir().parent().context("a snapshot has a place")?;
        let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(place)?;
        let program = self.programs.path.file_name().context("a program has a name")?;
        let root = dir.path().join(program).join("vm/root");
        self.furnish(bed, &root)?;
        let (api, agent) = (root.join("run/api.sock"), root.join("run/agent.sock"));

        let begun = Instant::now();
        let mut watch = Stopwatch::start();
        let monitor = Monitor::spawn(
            Command::new(&self.programs.jailer)
                .args(["--id", "vm", "--exec-file"])
                .arg(&self.programs.path)
                .args(["--uid", &self.user.uid.to_string(), "--gid", &self.user.gid.to_string()])
                .arg("--chroot-base-dir")
                .arg(dir.path())
                .args(["--", "--api-sock", "/run/api.sock", "--level", "Warning"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        watch.stage("spawn");
        let line = tokio::task::block_in_place(|| -> Result<StdStream> {
            let mut control = appear(&api)?;
            watch.stage("control");
            let load = r#"{"snapshot_path":"/state","mem_backend":{"backend_type":"File","backend_path":"/memory"},"resume_vm":true}"#;
            put(&mut control, "/snapshot/load", load)?;
            watch.stage("load");
            let mut line = StdStream::connect(&agent)?;
            line.write_all(b"CONNECT 1024\n")?;
            let mut answer = [0; 32];
            let length = line.read(&mut answer)?;
            ensure!(answer[..length].starts_with(b"OK "), "the monitor refused the connection");
            watch.stage("dial");
            Ok(line)
        })?;
        line.set_nonblocking(true)?;
        converse(UnixStream::from_std(line)?, &mut watch).await?;
        let took = begun.elapsed();
        drop(monitor);
        Ok((watch.finish(), took))
    }

    /// Puts the files into the root directory under the names that the snapshot remembers.
    fn furnish(&self, bed: &Bed, root: &Path) -> Result<()> {
        fs::create_dir_all(root.join("run"))?;
        let files = bed.files();
        let image: PathBuf = bed.source.image.path.clone();
        for (source, name) in [(&files.memory, "memory"), (&files.state, "state"), (&image, "image")] {
            let target = root.join(name);
            if fs::hard_link(source, &target).is_err() {
                fs::copy(source, &target)?;
                fs::set_permissions(&target, fs::Permissions::from_mode(0o444))?;
            }
        }
        scratch::copy(&bed.snapshot.scratch(), &root.join("scratch"))?;
        for path in [root.join("scratch"), root.join("run"), root.to_owned()] {
            chown(&path, Some(self.user.uid), Some(self.user.gid))?;
        }
        Ok(())
    }
}

/// Connects to a socket as soon as somebody listens on it.
fn appear(path: &Path) -> Result<StdStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match StdStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("the bare monitor is silent");
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// One request, and no more than a look at the status of its answer.
fn put(stream: &mut StdStream, path: &str, body: &str) -> Result<()> {
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let mut answer = [0; 4096];
    let count = stream.read(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer[..count]);
    match answer.split(' ').nth(1) {
        Some("204" | "200") => Ok(()),
        _ => bail!("{path} was refused: {answer}"),
    }
}
