//! QEMU's floor: one process, a socket for commands, five commands, one connection.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream as StdStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rekindle::engine::{Stopwatch, Timings};
use rekindle::host::scratch;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::{Monitor, converse};
use crate::bed::Bed;

/// The command line of a real clone.
#[derive(Debug)]
pub struct QemuFloor {
    words: Vec<String>,
    file_migration: bool,
}

/// Where the ends of the machine are on the host.
struct Ends<'a> {
    memory: &'a Path,
    image: &'a Path,
    scratch: &'a Path,
    agent: RawFd,
}

impl QemuFloor {
    pub(super) async fn learn(bed: &Bed) -> Result<Self> {
        let vm = bed.clone().await?;
        let pid = bed.processes(&vm)?[0];
        let line = fs::read(format!("/proc/{pid}/cmdline"));
        vm.stop().await;
        let words =
            line?.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let version = &bed.engine().identity().version;
        let mut numbers = version.split('.').filter_map(|number| number.parse::<u32>().ok());
        let file_migration = (numbers.next(), numbers.next()) >= (Some(8), Some(2));
        Ok(Self { words, file_migration })
    }

    pub(super) async fn start(&self, bed: &Bed) -> Result<(Timings, Duration)> {
        let dir = tempfile::tempdir()?;
        let disk = dir.path().join("scratch");
        scratch::copy(&bed.snapshot.scratch(), &disk)?;
        let files = bed.files();
        let agent = dir.path().join("agent");
        // As for a real clone: the line is there before the monitor, which inherits the listening end.
        let listener = UnixListener::bind(&agent)?;
        fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let ends = Ends {
            memory: &files.memory,
            image: &bed.source.image.path,
            scratch: &disk,
            agent: listener.as_raw_fd(),
        };
        let words = bare(&self.words, &ends);

        let begun = Instant::now();
        let mut watch = Stopwatch::start();
        let (ours, theirs) = StdStream::pair()?;
        let line = StdStream::connect(&agent)?;
        let state = File::open(&files.state)?;
        let monitor = Monitor::spawn(
            Command::new(&words[0])
                .args(&words[1..])
                .stdin(OwnedFd::from(theirs))
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        drop(listener);
        watch.stage("spawn");
        // Blocking is the shortest way, and nothing else runs here.
        tokio::task::block_in_place(|| -> Result<()> {
            let mut qmp = Qmp { stream: ours.try_clone()?, lines: BufReader::new(ours) };
            qmp.next(|line| line.get("QMP").is_some())?;
            qmp.call("qmp_capabilities", &Value::Null, None)?;
            let on = |name: &str| json!({ "capability": name, "state": true });
            let capabilities = json!({ "capabilities": [on("events"), on("x-ignore-shared")] });
            qmp.call("migrate-set-capabilities", &capabilities, None)?;
            watch.stage("control");
            let uri = if self.file_migration {
                qmp.call("add-fd", &json!({ "fdset-id": 9 }), Some(&state))?;
                "file:/dev/fdset/9"
            } else {
                qmp.call("getfd", &json!({ "fdname": "state" }), Some(&state))?;
                "fd:state"
            };
            qmp.call("migrate-incoming", &json!({ "uri": uri }), None)?;
            qmp.next(|line| line["event"] == "MIGRATION" && line["data"]["status"] == "completed")?;
            watch.stage("load");
            qmp.call("cont", &Value::Null, None)?;
            watch.stage("resume");
            Ok(())
        })?;
        line.set_nonblocking(true)?;
        let line = UnixStream::from_std(line)?;
        watch.stage("dial");
        converse(line, &mut watch).await?;
        let took = begun.elapsed();
        drop(monitor);
        Ok((watch.finish(), took))
    }
}

/// The same machine with plain files and sockets for the descriptors the supervisor hands over.
fn bare(words: &[String], ends: &Ends<'_>) -> Vec<String> {
    let mut bare = Vec::new();
    let mut words = words.iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        if word == "-add-fd" {
            words.next();
            continue;
        }
        let word = if word.starts_with("memory-backend-file,") {
            replace(word, "mem-path=", &format!("mem-path={}", ends.memory.display()))
        } else if word.starts_with("socket,id=control,") {
            replace(word, "fd=", "fd=0")
        } else if word.starts_with("socket,id=agent,") {
            replace(word, "fd=", &format!("fd={}", ends.agent))
        } else {
            word.replace("file=/dev/fdset/1", &format!("file={}", ends.image.display()))
                .replace("file=/dev/fdset/2", &format!("file={}", ends.scratch.display()))
        };
        bare.push(word);
    }
    bare
}

/// Replaces the part of a list with commas that begins with `start`.
fn replace(list: &str, start: &str, with: &str) -> String {
    list.split(',')
        .map(|part| if part.starts_with(start) { with } else { part })
        .collect::<Vec<_>>()
        .join(",")
}

/// The control channel, one command after the other.
struct Qmp {
    stream: StdStream,
    lines: BufReader<StdStream>,
}

impl Qmp {
    fn call(&mut self, command: &str, arguments: &Value, file: Option<&File>) -> Result<()> {
        let mut request = json!({ "execute": command });
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        let line = format!("{request}\n");
        match file {
            None => self.stream.write_all(line.as_bytes())?,
            Some(file) => {
                let descriptors = [file.as_raw_fd()];
                let control = [ControlMessage::ScmRights(&descriptors)];
                let parts = [IoSlice::new(line.as_bytes())];
                let fd = self.stream.as_raw_fd();
                sendmsg::<()>(fd, &parts, &control, MsgFlags::empty(), None)?;
            }
        }
        let answer = self.next(|line| line.get("return").is_some() || line.get("error").is_some())?;
        match answer.get("error") {
            Some(error) => bail!("{command} was refused: {error}"),
            None => Ok(()),
        }
    }

    /// The next line that is looked for.
    fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                bail!("the bare monitor ended");
            }
            let line: Value =
                serde_json::from_str(&line).context("the monitor said something else than JSON")?;
            if wanted(&line) {
                return Ok(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! The machine stays the same, only its ends on the host change.

    use super::*;

    #[test]
    fn descriptors_become_files_and_everything_else_stays() {
        let words = [
            "qemu",
            "-object",
            "memory-backend-file,id=mem,size=512M,mem-path=/rekindle/memory,share=off",
            "-chardev",
            "socket,id=control,fd=7",
            "-add-fd",
            "fd=9,set=1,opaque=image",
            "-drive",
            "id=image,if=none,file=/dev/fdset/1",
            "-chardev",
            "socket,id=agent,fd=8,server=on,wait=on",
            "-S",
            "",
        ]
        .map(str::to_owned);
        let path = Path::new;
        let ends = Ends { memory: path("/m"), image: path("/i"), scratch: path("/s"), agent: 42 };
        assert_eq!(
            bare(&words, &ends),
            [
                "qemu",
                "-object",
                "memory-backend-file,id=mem,size=512M,mem-path=/m,share=off",
                "-chardev",
                "socket,id=control,fd=0",
                "-drive",
                "id=image,if=none,file=/i",
                "-chardev",
                "socket,id=agent,fd=42,server=on,wait=on",
                "-S",
            ]
        );
    }
}
