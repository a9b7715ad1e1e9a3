//! QEMU's command line: a pure function of the hardware and of open descriptors.
//!
//! Restoring demands the same devices in the same order as booting, so both come from one list here.
//! Called by `start`; it opens nothing.

use std::ffi::OsString;
use std::os::fd::RawFd;

use crate::engine::{Hardware, IoThrottle};

/// The name under which the monitor asks for its memory file. The open guard answers; no file of that
/// name exists, so that without the guard nothing is opened by mistake.
pub(super) const MEMORY_PATH: &str = "/rekindle/memory";

/// The virtio-serial port the agent listens on.
const AGENT_PORT: &str = "rekindle.agent";

/// Emulated code kept, in MiB: enough for two interpreters, and half of a clone's footprint if larger.
pub(super) const TRANSLATION_CACHE_MIB: u64 = 128;

/// How guest code is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    Tcg,
    Kvm,
}

impl Accelerator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// The descriptors the child inherits, by number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptors {
    /// Connected socket of the control channel.
    pub(super) control: RawFd,
    /// Listening socket for connections to the agent.
    pub(super) agent: RawFd,
    /// The root image, read-only.
    pub(super) image: RawFd,
    /// The scratch disk, read-write.
    pub(super) scratch: RawFd,
    /// The scratch disk, read-only: the monitor looks at a disk before it opens it to write.
    pub(super) scratch_look: RawFd,
}

/// What makes a boot differ from a restore.
#[derive(Debug, Clone)]
pub(super) enum Mode<'a> {
    /// Boot `kernel`; the console goes to a connected socket.
    Boot { kernel: RawFd, command_line: &'a str, console: RawFd, memory: BootMemory },
    /// Wait for a snapshot; the console goes where the monitor's own messages go, of which the end is kept.
    Restore,
}

/// Where a booting machine's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootMemory {
    /// The file that becomes the snapshot's.
    SharedFile,
    /// The monitor's own; the machine cannot be frozen.
    Anonymous,
}

impl Mode<'_> {
    /// Whether the machine is booted to be frozen.
    fn is_template(&self) -> bool {
        matches!(self, Self::Boot { memory: BootMemory::SharedFile, .. })
    }
}

/// Builds the arguments.
pub(super) fn build(
    hardware: &Hardware,
    accelerator: Accelerator,
    io: IoThrottle,
    fds: Descriptors,
    mode: &Mode<'_>,
) -> Vec<OsString> {
    let mut list = List::default();
    list.pair(
        "-machine",
        "microvm,x-option-roms=off,pit=on,pic=on,rtc=on,isa-serial=on,acpi=off,auto-kernel-cmdline=on,\
         memory-backend=mem",
    );
    match accelerator {
        Accelerator::Tcg => {
            // Linux patches its own code while it boots. With a thread per processor the emulator now and then
            // lets one processor trip over what another has just patched, and the guest dies; a template is
            // worth the slower way. Threads are no part of a snapshot: clones have one per processor.
            let threads = if mode.is_template() { ",thread=single" } else { "" };
            list.pair("-accel", format!("tcg{threads},tb-size={TRANSLATION_CACHE_MIB}"));
            // Five-level page tables cost an emulated guest time and give it nothing. A processor that says its
            // byte-wise string instructions are fast is believed: the guest's kernel and C library then copy and
            // clear with them, and an emulator carries them out byte by byte (docs/performance.md).
            list.pair("-cpu", "max,-la57,-erms,-fsrm");
        }
        Accelerator::Kvm => {
            list.pair("-accel", "kvm");
            list.pair("-cpu", "host");
        }
    }
    list.pair("-smp", hardware.vcpus.to_string());
    list.pair("-m", format!("{}M", hardware.memory_mib));
    for flag in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        list.flag(flag);
    }
    list.pair("-display", "none");
    list.pair("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    list.memory(hardware, mode);
    list.console(mode);
    list.pair("-chardev", format!("socket,id=control,fd={}", fds.control));
    list.pair("-mon", "chardev=control,mode=control");
    list.devices(io, fds, mode);
    match mode {
        Mode::Boot { kernel, command_line, .. } => {
            list.pair("-kernel", format!("/proc/self/fd/{kernel}"));
            list.pair("-append", *command_line);
        }
        Mode::Restore => {
            list.flag("-S");
            list.pair("-incoming", "defer");
        }
    }
    list.0
}

#[derive(Default)]
struct List(Vec<OsString>);

impl List {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn pair(&mut self, flag: &str, value: impl Into<OsString>) {
        self.0.push(flag.into());
        self.0.push(value.into());
    }

    fn memory(&mut self, hardware: &Hardware, mode: &Mode<'_>) {
        let size = hardware.memory_mib;
        let file =
            |share| format!("memory-backend-file,id=mem,size={size}M,mem-path={MEMORY_PATH},share={share}");
        self.pair(
            "-object",
            match mode {
                Mode::Boot { memory: BootMemory::SharedFile, .. } => file("on"),
                Mode::Boot { memory: BootMemory::Anonymous, .. } => {
                    format!("memory-backend-ram,id=mem,size={size}M")
                }
                Mode::Restore => file("off"),
            },
        );
    }

    fn console(&mut self, mode: &Mode<'_>) {
        self.pair(
            "-chardev",
            match mode {
                Mode::Boot { console, .. } => format!("socket,id=console,fd={console}"),
                Mode::Restore => "stdio,id=console,signal=off".to_owned(),
            },
        );
        self.pair("-serial", "chardev:console");
    }

    /// The devices the guest sees. Their order decides their addresses, so it never changes.
    fn devices(&mut self, io: IoThrottle, fds: Descriptors, mode: &Mode<'_>) {
        self.pair("-add-fd", format!("fd={},set=1,opaque=image", fds.image));
        self.pair("-drive", "id=image,if=none,format=raw,readonly=on,file.locking=off,file=/dev/fdset/1");
        self.pair("-device", "virtio-blk-device,drive=image");

        for fd in [fds.scratch, fds.scratch_look] {
            self.pair("-add-fd", format!("fd={fd},set=2,opaque=scratch"));
        }
        // Nothing on a scratch disk outlives its machine, so flushing it would be wasted. A host whose disk is
        // full is the guest's error: by default the monitor would stop the guest and wait for a person.
        let mut scratch =
            "id=scratch,if=none,format=raw,cache=unsafe,discard=unmap,werror=report,file.locking=off"
                .to_owned();
        if let Some(bytes) = io.bytes_per_second {
            scratch += &format!(",throttling.bps-total={bytes}");
        }
        if let Some(operations) = io.operations_per_second {
            scratch += &format!(",throttling.iops-total={operations}");
        }
        self.pair("-drive", scratch + ",file=/dev/fdset/2");
        self.pair("-device", "virtio-blk-device,drive=scratch");

        self.pair("-device", "virtio-serial-device,max_ports=2");
        // The socket listens already; connections wait in it until the monitor gets to them. That of a clone
        // has one in it from the start. The monitor takes it before it makes the port, which is then the port
        // of the snapshot, with a host on its line; later, it would have to tell the guest of a change.
        let wait = if matches!(mode, Mode::Restore) { "on" } else { "off" };
        self.pair("-chardev", format!("socket,id=agent,fd={},server=on,wait={wait}", fds.agent));
        self.pair("-device", format!("virtserialport,chardev=agent,name={AGENT_PORT}"));
        self.pair("-device", "virtio-rng-device");
    }
}

/// The kernel's command line.
///
/// Without the counter's rate the guest's clock falls back to 10 ms steps under emulation.
pub(super) fn command_line(accelerator: Accelerator, tsc_khz: Option<u32>, extra: &[String]) -> String {
    let mut words = vec![
        "console=ttyS0 quiet".to_owned(),
        "root=/dev/vda rootfstype=erofs ro init=/sbin/rekindle-agent".to_owned(),
        format!("rekindle.transport=port:{AGENT_PORT}"),
        "panic=-1 reboot=t random.trust_cpu=on no_timer_check tsc=reliable irqaffinity=0".to_owned(),
    ];
    if accelerator == Accelerator::Tcg {
        // An emulator has no speculation to mitigate.
        words.push("mitigations=off".to_owned());
        words.extend(tsc_khz.map(|khz| format!("tsc_early_khz={khz}")));
    }
    words.extend_from_slice(extra);
    words.join(" ")
}
