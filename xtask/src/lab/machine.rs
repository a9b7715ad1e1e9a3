//! The lab as a running machine: booted under QEMU, found again by its sockets, stopped.
//!
//! ```text
//! down ──join──▶ up ──run──▶ up ──stop, or the end of a bound owner──▶ down
//! ```
//!
//! `<cache>/lab-run/` holds its sockets, its console and the directory shared with it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::channel::{self, Patience};
use super::image::{self, INITRD, KERNEL, ROOT};
use crate::cache::Cache;
use crate::hint::Hint;
use crate::job::bound_command;

const PROGRAM: &str = "qemu-system-x86_64";
/// Names another emulator: a newer one emulates more instructions, and more of two processors.
const OTHER_PROGRAM: &str = "REKINDLE_LAB_QEMU";
const MEMORY_MIB: u32 = 8192;
/// One: QEMU's emulation of AMD's extensions is not safe with more. Of two, one was found halted for good, with its
/// global interrupt flag clear and interrupts waiting (docs/lab.md).
const PROCESSORS: u32 = 1;
/// Asks for another number, to measure what needs more than one and can be lost.
const OTHER_PROCESSORS: &str = "REKINDLE_LAB_PROCESSORS";
/// `nohz` and `highres` make the processor's timer tick by itself: a tick that the emulator loses is followed by
/// another, where a timer that is set again by its own interrupt would stand still. The next two are what
/// docs/guides/production-host.md asks of every host, so that making a machine does not wait for the whole kernel.
/// The last has memory cleared when it is given back: the emulator needs fifty times as long to write a page whose
/// old content it has run, and whoever got that page next would pay for it (docs/lab.md).
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable random.trust_cpu=on \
                              nohz=off highres=off cgroup_favordynmods=true kvm.nx_huge_pages=never \
                              init_on_free=1";
/// How long an emulated machine may take to boot on a busy host.
const BOOT_DEADLINE: Duration = Duration::from_secs(180);

/// Lines of its console that are shown of a lab that failed.
const LAST_WORDS: usize = 12;

/// How long a lab that has to be booted lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Until `lab down`.
    UntilStopped,
    /// As long as this process.
    Bound,
}

/// A lab that answers.
pub struct Lab {
    dir: PathBuf,
    /// The emulator, when it lives only as long as this.
    bound: Option<Child>,
}

impl Lab {
    /// The running lab, or a new one.
    pub fn join(cache: &Cache, life: Life) -> Result<Self> {
        let dir = cache.root().join("lab-run");
        if UnixStream::connect(dir.join("control")).is_ok() {
            return Ok(Self { dir, bound: None });
        }
        let processors = processors()?;
        let image = image::build(cache)?;
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("share"))?;
        // Whoever reaches the sockets is root in the lab.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
        let started = Instant::now();
        let program = std::env::var_os(OTHER_PROGRAM).unwrap_or_else(|| PROGRAM.into());
        let mut command = if life == Life::Bound { bound_command(&program) } else { Command::new(&program) };
        arguments(&mut command, processors, &image.dir, &dir);
        let bound = match life {
            Life::Bound => Some(command.stdin(Stdio::null()).spawn().context("cannot start QEMU")?),
            Life::UntilStopped => {
                let status = command.arg("-daemonize").status().context("cannot start QEMU")?;
                if !status.success() {
                    bail!("QEMU does not start the lab");
                }
                None
            }
        };
        let mut lab = Self { dir, bound };
        lab.wait_for_socket(started)?;
        lab.run("true", &mut std::io::sink(), &mut std::io::sink()).context("the lab did not come up")?;
        eprintln!("lab: up after {:.1} s", started.elapsed().as_secs_f64());
        Ok(lab)
    }

    /// The directory that is `/share` in the lab.
    pub fn share(&self) -> PathBuf {
        self.dir.join("share")
    }

    /// Runs a command in the lab and returns its exit code.
    pub fn run(&self, command: &str, out: &mut dyn Write, err: &mut dyn Write) -> Result<i32> {
        self.ask(None, command, out, err)
    }

    /// The same for a command that is given up when it prints nothing for so long.
    pub fn run_within(
        &self,
        silence: Duration,
        command: &str,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<i32> {
        self.ask(Some(silence), command, out, err)
    }

    fn ask(
        &self,
        silence: Option<Duration>,
        command: &str,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<i32> {
        let patience = Patience { answer: BOOT_DEADLINE, silence };
        channel::run(&self.dir.join("channel"), command, patience, out, err)
            .map_err(|error| error.context(self.last_words()))
            .hint(format!("the lab's console is in {}", self.dir.join("console").display()))
    }

    /// What its kernel said last, without what it says of every guest.
    fn last_words(&self) -> String {
        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let telling = |line: &&str| !line.trim().is_empty() && !line.contains("Unhandled WRMSR");
        let mut lines: Vec<&str> = console.lines().filter(telling).rev().take(LAST_WORDS).collect();
        lines.reverse();
        format!("the lab failed; its console ends with:\n{}", lines.join("\n"))
    }

    /// Stops the lab, if one is up.
    pub fn stop(cache: &Cache) -> Result<bool> {
        let dir = cache.root().join("lab-run");
        let stopped = quit(&dir.join("control"));
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(stopped)
    }

    /// The emulator makes its sockets before it starts the machine.
    fn wait_for_socket(&mut self, started: Instant) -> Result<()> {
        while UnixStream::connect(self.dir.join("control")).is_err() {
            if let Some(child) = &mut self.bound
                && let Some(status) = child.try_wait()?
            {
                bail!("QEMU does not start the lab: {status}");
            }
            if started.elapsed() > BOOT_DEADLINE {
                bail!("QEMU made no sockets in {}", self.dir.display());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(child) = &mut self.bound {
            quit(&self.dir.join("control"));
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Asks the emulator to end and waits until it has; whether there was one.
fn quit(control: &Path) -> bool {
    let Ok(mut monitor) = UnixStream::connect(control) else { return false };
    let _ = monitor.write_all(b"quit\n");
    let _ = monitor.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = monitor.read_to_end(&mut Vec::new());
    true
}

/// How many processors a new lab gets.
fn processors() -> Result<u32> {
    let Some(asked) = std::env::var_os(OTHER_PROCESSORS) else { return Ok(PROCESSORS) };
    let number = asked.to_str().and_then(|text| text.parse().ok()).filter(|number| (1..=16).contains(number));
    number.with_context(|| format!("{OTHER_PROCESSORS} is not a number from 1 to 16: {}", asked.display()))
}

fn arguments(command: &mut Command, processors: u32, image: &Path, dir: &Path) {
    let socket = |name: &str| format!("{},server=on,wait=off", escape(&dir.join(name)));
    command
        .args(["-accel", "tcg,thread=multi,tb-size=2047", "-M", "q35", "-cpu", "max,+svm,-la57,-erms,-fsrm"])
        .args(["-smp", &processors.to_string(), "-m", &MEMORY_MIB.to_string()])
        .args(["-display", "none", "-vga", "none", "-no-reboot", "-nodefaults", "-no-user-config"])
        .arg("-serial")
        .arg(format!("file:{}", dir.join("console").display()))
        .arg("-kernel")
        .arg(image.join(KERNEL))
        .arg("-initrd")
        .arg(image.join(INITRD))
        .args(["-append", KERNEL_OPTIONS])
        .arg("-drive")
        .arg(format!("if=none,id=root,format=raw,readonly=on,file={}", escape(&image.join(ROOT))))
        .args(["-device", "virtio-blk-pci,drive=root,romfile="])
        .args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=channel,name=lab"])
        .arg("-chardev")
        .arg(format!("socket,id=channel,path={}", socket("channel")))
        .args(["-chardev"])
        .arg(format!("socket,id=control,path={}", socket("control")))
        .args(["-mon", "chardev=control,mode=readline"])
        .arg("-virtfs")
        .arg(format!(
            "local,path={},mount_tag=share,security_model=none,multidevs=remap",
            escape(&dir.join("share"))
        ));
}

/// A path inside one of QEMU's comma-separated options.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
