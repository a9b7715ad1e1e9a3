//! Boots a machine from kernel and image.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tokio::time::timeout;

use super::api::models::{
    ActionType, BootSource, CacheType, Drive, EntropyDevice, InstanceActionInfo, MachineConfiguration,
    RateLimiter, TokenBucket, Vsock,
};
use super::api::{Api, ApiError};
use super::control::explain;
use super::engine::FirecrackerEngine;
use super::jail::{AGENT, Entry, IMAGE, KERNEL, MEMORY, SCRATCH, STATE};
use super::machine::FirecrackerMachine;
use super::start::{Start, start};
use super::vsock::{AGENT_PORT, GUEST_CID, READY_PORT};
use crate::engine::{
    BootSpec, EngineError, Hardware, IoThrottle, Operation, SnapshotFiles, Started, Stopwatch,
};

const LAUNCH: Operation = Operation::Launch;

pub(super) async fn launch(engine: &FirecrackerEngine, spec: BootSpec) -> Result<Started, EngineError> {
    let deadline = spec.home.deadline;
    // On the deadline the future is dropped, and with it the process it had started.
    timeout(deadline, boot(engine, spec))
        .await
        .unwrap_or(Err(EngineError::Deadline { operation: LAUNCH, after: deadline }))
}

async fn boot(engine: &FirecrackerEngine, spec: BootSpec) -> Result<Started, EngineError> {
    let mut watch = Stopwatch::start();
    let BootSpec { hardware, home, kernel, kernel_args, snapshot_dir } = spec;
    let (io, files) = (home.io, snapshot_dir.as_deref().map(SnapshotFiles::in_dir));
    let memory_bytes = u64::from(hardware.memory_mib) << 20;
    let mut entries = vec![Entry { name: KERNEL, source: &kernel, writable: false }];
    if let Some(files) = &files {
        // Made here, because the monitor may not make files where the snapshot goes.
        for (name, source, length) in [(MEMORY, &files.memory, memory_bytes), (STATE, &files.state, 0)] {
            create(source, length)?;
            entries.push(Entry { name, source, writable: true });
        }
    }
    let plan = Start {
        operation: LAUNCH,
        hardware: &hardware,
        home,
        files: &entries,
        writes: if files.is_some() { memory_bytes } else { 0 },
        boots: true,
    };
    let monitor = start(engine, plan, &mut watch).await?;
    if let Err(error) = configure(&monitor.api, &hardware, io, &command_line(&kernel_args)).await {
        return Err(explain(&monitor, LAUNCH, error).await);
    }
    watch.stage("configure");
    let machine = FirecrackerMachine::new(monitor, files);
    Ok(Started { machine: Box::new(machine), timings: watch.finish() })
}

async fn configure(api: &Api, hardware: &Hardware, io: IoThrottle, boot_args: &str) -> Result<(), ApiError> {
    api.put("/machine-config", &machine(hardware.vcpus, hardware.memory_mib)).await?;
    api.put("/boot-source", &BootSource { kernel_image_path: KERNEL, boot_args }).await?;
    // The first is /dev/vda, the second /dev/vdb. Nothing on either outlives its machine, so flushing
    // them would be wasted.
    let image = Drive {
        drive_id: "image",
        path_on_host: IMAGE,
        is_root_device: false,
        is_read_only: true,
        cache_type: CacheType::Unsafe,
        rate_limiter: None,
    };
    api.put("/drives/image", &image).await?;
    let scratch = Drive {
        drive_id: "scratch",
        path_on_host: SCRATCH,
        is_read_only: false,
        rate_limiter: rate_limiter(io),
        ..image
    };
    api.put("/drives/scratch", &scratch).await?;
    let uds_path = Path::new("run").join(AGENT);
    api.put("/vsock", &Vsock { guest_cid: GUEST_CID, uds_path, vsock_id: None }).await?;
    api.put("/entropy", &EntropyDevice {}).await?;
    api.put("/actions", &InstanceActionInfo { action_type: ActionType::InstanceStart }).await
}

fn machine(vcpus: u32, memory_mib: u32) -> MachineConfiguration {
    // No template ever asks for more than fits.
    let number = |value: u32| isize::try_from(value).unwrap_or(isize::MAX);
    MachineConfiguration {
        vcpu_count: number(vcpus),
        mem_size_mib: number(memory_mib),
        cpu_template: None,
        smt: None,
        track_dirty_pages: None,
        huge_pages: None,
    }
}

/// The kernel's command line.
pub(super) fn command_line(extra: &[String]) -> String {
    let mut words = vec![
        "console=ttyS0 quiet".to_owned(),
        "root=/dev/vda rootfstype=erofs ro init=/sbin/rekindle-agent".to_owned(),
        format!("rekindle.transport=vsock:{AGENT_PORT} rekindle.ready={READY_PORT}"),
        "panic=-1 reboot=k random.trust_cpu=on irqaffinity=0".to_owned(),
    ];
    words.extend_from_slice(extra);
    words.join(" ")
}

/// The limits of a disk in Firecracker's terms: as much again every second.
pub(super) fn rate_limiter(io: IoThrottle) -> Option<RateLimiter> {
    let bucket = |size| TokenBucket { size, refill_time: 1_000 };
    let limiter =
        RateLimiter { bandwidth: io.bytes_per_second.map(bucket), ops: io.operations_per_second.map(bucket) };
    (limiter.bandwidth.is_some() || limiter.ops.is_some()).then_some(limiter)
}

fn create(path: &Path, length: u64) -> Result<(), EngineError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.and_then(|file| file.set_len(length)).map_err(EngineError::file(LAUNCH, path))
}
