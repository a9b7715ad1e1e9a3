//! Firecracker under its jailer. Where this machine's KVM is not usable, `cargo xtask lab test` runs
//! these in the lab; it finds them by this module's name.

use std::collections::BTreeSet;
use std::env;
use std::error::Error as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rekindle::engine::firecracker::{Confinement, FirecrackerEngine, find};
use rekindle::engine::{IoThrottle, Machine, SnapshotFiles, Started, Stopwatch};
use rekindle::host::cgroup::{CgroupManager, CpuQuota, Limits};
use rekindle::host::kvm::KvmStatus;
use rekindle::host::mapped::{Mapped, PAGE};
use rekindle::host::process::ProcessIdentity;

use super::bench::Bench;
use super::contract;
use super::guest::{artifacts, hello};

/// Memory of the machines under test, in MiB.
const MEMORY_MIB: u32 = 128;
/// How often each way of starting is measured; `REKINDLE_ROUNDS` asks for more.
const ROUNDS: u32 = 3;

/// A bench with Firecracker on it, or why there is none.
fn bench(confinement: Confinement) -> Result<Bench, String> {
    let kvm = KvmStatus::probe();
    if !kvm.is_usable() {
        return Err(format!("{kvm}; `cargo xtask lab test` runs this test in the lab"));
    }
    let found = find(None).map_err(|error| error.to_string().replace('\n', "; "))?;
    let (kernel, image) = artifacts()?;
    let engine = FirecrackerEngine::confined(found, confinement);
    Ok(Bench::new(Arc::new(engine), kernel, image, MEMORY_MIB, hello))
}

/// The bench, or the end of the test as a reported skip.
macro_rules! bench {
    () => {
        bench!(Confinement::Jailed)
    };
    ($confinement:expr) => {
        match bench($confinement) {
            Ok(bench) => {
                rekindle_test_support::ran_on!("firecracker");
                bench
            }
            Err(reason) => rekindle_test_support::skip!("{reason}"),
        }
    };
}

// Behind the macro, which it uses.
mod faults;

#[tokio::test]
async fn firecracker_keeps_the_contract() {
    let bench = bench!();
    contract::holds(&bench).await;
}

#[tokio::test]
async fn a_jailed_monitor_has_no_privileges_and_reaches_only_its_own_files() {
    let bench = bench!();
    let files = bench.snapshot("template").await;
    let limits = Limits {
        cpu: Some(CpuQuota { millis: 1500 }),
        memory_bytes: Some(300 << 20),
        pids: Some(40),
        io: None,
    };
    let cgroup = CgroupManager::detect(None).create("jailed-monitor", &limits).expect("a group");
    let mut spec = bench.restore_spec(&files);
    spec.home.cgroup = Some(cgroup.join().expect("a ticket"));
    let user = spec.home.run_as.expect("a user");
    let machine = bench.engine.restore(spec).await.expect("restored").machine;
    bench.answers(&*machine).await.expect("it answers");
    let pid = monitor(&*machine);

    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("readable");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_ascii_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    for (name, id) in [("Uid:", user.uid), ("Gid:", user.gid)] {
        assert!(field(name).split(' ').all(|word| word == id.to_string()), "{name} {}", field(name));
    }
    for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
    assert_eq!(field("NSpid:").split(' ').count(), 2, "it is in a process namespace of its own");
    for name in ["pid", "mnt", "net"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).expect("a namespace");
        assert_ne!(of(&pid.to_string()), of("self"), "{name}");
    }

    // The whole of what it can name.
    let root = format!("/proc/{pid}/root");
    let names = ["dev", "firecracker", "firecracker.pid", "image", "memory", "run", "scratch", "state"];
    assert_eq!(list(&root), names.map(str::to_owned).into());
    assert_eq!(list(&format!("{root}/run")), ["agent.sock", "api.sock", "metrics"].map(str::to_owned).into());
    let devices = list(&format!("{root}/dev"));
    let known = ["kvm", "net", "urandom", "userfaultfd"].map(str::to_owned);
    assert!(devices.is_subset(&known.into()), "{devices:?}");
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("readable");
    let mounts: Vec<(&str, &str)> = mounts
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[4], words[5])
        })
        .collect();
    assert_eq!(mounts.len(), 5, "its root and four files: {mounts:?}");
    for name in ["/image", "/memory", "/state"] {
        let options = mounts.iter().find(|(place, _)| *place == name).expect("bound").1;
        assert!(options.starts_with("ro,"), "{name}: {options}");
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("readable");
    let mut memory = maps.lines().filter(|line| line.ends_with("/memory")).peekable();
    assert!(memory.peek().is_some(), "the memory file is mapped");
    assert!(memory.all(|line| line.split(' ').nth(1).is_some_and(|mode| mode.ends_with('p'))));

    // The limits hold it and the processes before it.
    let open_files = fs::read_to_string(format!("/proc/{pid}/limits")).expect("readable");
    assert!(open_files.lines().any(|line| line.starts_with("Max open files") && line.contains(" 256 ")));
    assert_eq!(cgroup.limits().expect("read back"), limits);
    assert!(cgroup.processes().expect("listed").contains(&pid));
    machine.kill().await;
    assert_eq!(cgroup.processes().expect("listed"), Vec::<u32>::new());
    cgroup.close().await.expect("the group can be removed");
}

#[tokio::test]
async fn limits_on_the_disk_are_the_monitors_rate_limiters_after_a_boot_and_after_a_restore() {
    let bench = bench!();
    let io = IoThrottle { bytes_per_second: Some(50 << 20), operations_per_second: Some(2_000) };
    let unbounded = bench.snapshot("unbounded").await;
    let same = SnapshotFiles { io: Some(io), ..bench.snapshot_bounded("same", io).await };
    let bucket = |size: u64| serde_json::json!({ "size": size, "one_time_burst": null, "refill_time": 1000 });
    for (files, set_again) in [(None, false), (Some(&unbounded), true), (Some(&same), false)] {
        let mut boot = bench.boot_spec(None);
        let mut restore = bench.restore_spec(files.unwrap_or(&unbounded));
        let boots = files.is_none();
        let home = if boots { &mut boot.home } else { &mut restore.home };
        home.io = io;
        let work_dir = home.work_dir.clone();
        let started =
            if boots { bench.engine.launch(boot).await } else { bench.engine.restore(restore).await };
        let machine = started.expect("started").machine;
        bench.answers(&*machine).await.expect("it answers");
        let config = get(&work_dir.join("jail/firecracker/vm/root/run/api.sock"), "/vm/config");
        let drives = config["drives"].as_array().expect("drives");
        let drive = |id: &str| drives.iter().find(|drive| drive["drive_id"] == id).expect("there");
        let limiter = &drive("scratch")["rate_limiter"];
        assert_eq!(limiter["bandwidth"], bucket(50 << 20), "boots: {boots}, {config}");
        assert_eq!(limiter["ops"], bucket(2_000), "boots: {boots}, {config}");
        assert!(drive("image")["rate_limiter"].is_null() && drive("image")["is_read_only"] == true);
        let words = machine.last_words();
        assert_eq!(words.contains("/drives/scratch") && !boots, set_again, "boots: {boots}, {words}");
        machine.kill().await;
    }
}

#[tokio::test]
async fn prefaulted_pages_are_a_clones_own_before_it_writes_to_them() {
    let bench = bench!();
    let plain = bench.snapshot("prefault").await;
    // In the kernel's code, which no guest writes to.
    let pages: Arc<[u64]> = (0x110_0000 / PAGE..).take(3).collect();
    let file = || fs::read(&plain.memory).expect("the memory file");
    let before = file();
    for prefault in [Arc::default(), pages.clone()] {
        let files = SnapshotFiles { prefault: Arc::clone(&prefault), ..plain.clone() };
        let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
        bench.answers(&*machine).await.expect("it answers");
        let pid = machine.process().expect("a monitor").pid;
        let mut own = Vec::new();
        for mapped in Mapped::find(pid, &files.memory).expect("its memory") {
            mapped.pages(|page, copied| own.extend(copied.then_some(page))).expect("its pages");
        }
        assert!(!own.is_empty(), "a guest that runs writes somewhere");
        own.retain(|page| pages.contains(page));
        assert_eq!(own, *prefault);
        machine.kill().await;
    }
    assert!(file() == before, "the snapshot is nobody's to change");
}

/// Asks a monitor, over a connection of our own.
fn get(socket: &Path, path: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect("asked");
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).expect("answered");
        answer.push_str(std::str::from_utf8(&buffer[..count]).expect("text"));
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if let Ok(value) = serde_json::from_str(body) {
            return value;
        }
        assert_ne!(count, 0, "no answer: {answer}");
    }
}

#[tokio::test]
async fn what_the_monitor_logs_and_counts_is_kept_and_part_of_errors() {
    let bench = bench!();
    let files = bench.snapshot("template").await;
    let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
    bench.answers(&*machine).await.expect("it answers");
    let words = machine.last_words();
    assert!(words.contains("Listening on API socket") && words.len() <= 20 << 10, "{words}");
    machine.kill().await;

    // A state that is none: the monitor's own words say so.
    let broken = SnapshotFiles { state: bench.dir.path().join("none"), ..files.clone() };
    fs::write(&broken.state, "no state at all").expect("written");
    let error = bench.engine.restore(bench.restore_spec(&broken)).await.map(|_| ()).expect_err("refused");
    let chain = format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default());
    eprintln!("{chain}");
    assert!(chain.contains("/snapshot/load") && chain.len() < 2_000, "{chain}");
}

#[tokio::test]
async fn without_the_jailer_a_machine_works_the_same_in_namespaces_of_its_own() {
    let bench = bench!(Confinement::Bare);
    let files = bench.snapshot("template").await;
    let machine = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
    bench.answers(&*machine).await.expect("it answers");
    let pid = monitor(&*machine);
    for name in ["pid", "mnt", "net"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).expect("a namespace");
        assert_ne!(of(&pid.to_string()), of("self"), "{name}");
    }
    let root = fs::read_link(format!("/proc/{pid}/root")).expect("a root");
    assert_eq!(root, Path::new("/"), "this is what the jailer would have changed");
    machine.kill().await;
}

/// The pid of the monitor itself.
fn monitor(machine: &dyn Machine) -> u32 {
    monitor_of(machine.process().expect("a process"))
}

fn monitor_of(process: &ProcessIdentity) -> u32 {
    let comm = fs::read_to_string(format!("/proc/{}/comm", process.pid)).expect("readable");
    assert_eq!(comm.trim(), "firecracker");
    process.pid
}

fn end(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), Signal::SIGKILL).expect("killed");
}

fn list(path: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(Path::new(path)).expect("readable");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn a_clone_does_not_boot_and_a_prespawned_one_starts_no_monitor() {
    let bench = bench!();
    let rounds = env::var("REKINDLE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let files = bench.snapshot("template").await;
    let (mut boots, mut restores, mut loads) = (Starts::default(), Starts::default(), Starts::default());
    for _ in 0..rounds {
        let began = Instant::now();
        let started = bench.engine.launch(bench.boot_spec(None)).await.expect("launched");
        boots.add(&bench, started, began).await;

        let began = Instant::now();
        let started = bench.engine.restore(bench.restore_spec(&files)).await.expect("restored");
        restores.add(&bench, started, began).await;

        let prepared = bench.engine.prespawn(bench.restore_spec(&files)).await.expect("prepared");
        let waited = prepared.process().cloned();
        let began = Instant::now();
        let mut started = prepared.load().await.expect("loaded");
        assert!(waited.is_some(), "a monitor waits");
        assert_eq!(started.machine.process().cloned(), waited, "the monitor that waited is the clone's");
        // What came before was done when nobody waited.
        started.timings.stages.retain(|stage| stage.name == "load");
        loads.add(&bench, started, began).await;
    }
    // What each takes is the benchmarks' to judge: a busy machine says nothing about the product.
    for (name, starts) in [("boot", &boots), ("restore", &restores), ("prespawned", &loads)] {
        let (total, stages) = (median(&starts.totals), starts.stages());
        eprintln!("{name}, median of {rounds} to the agent's first answer: {total:?} ({stages})");
    }
    assert!(boots.has("configure") && !boots.has("load"), "a kernel is booted");
    assert!(restores.has("spawn") && restores.has("load") && !restores.has("configure"), "memory is mapped");
}

/// Starts of one kind, each to the agent's first answer.
#[derive(Default)]
struct Starts {
    totals: Vec<Duration>,
    stages: Vec<(&'static str, Vec<Duration>)>,
}

impl Starts {
    /// Waits for the answer and ends the machine.
    async fn add(&mut self, bench: &Bench, started: Started, began: Instant) {
        let mut timings = started.timings;
        let mut watch = Stopwatch::start();
        bench.answers(&*started.machine).await.expect("it answers");
        watch.stage("answer");
        let took = began.elapsed();
        started.machine.kill().await;
        timings.extend(&watch.finish());
        assert!(timings.total() <= took, "no stage is counted twice: {timings:?} in {took:?}");
        self.totals.push(took);
        for stage in timings.stages {
            match self.stages.iter_mut().find(|(name, _)| *name == stage.name) {
                Some((_, times)) => times.push(stage.took),
                None => self.stages.push((stage.name, vec![stage.took])),
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.stages.iter().any(|(stage, _)| *stage == name)
    }

    fn stages(&self) -> String {
        let words = self.stages.iter().map(|(stage, times)| format!("{stage} {:.0?}", median(times)));
        words.collect::<Vec<_>>().join(", ")
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}
