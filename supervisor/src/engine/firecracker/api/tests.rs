//! The bodies against the published interface, and the client against a monitor made of a few lines.

mod hostile;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::models::{
    ActionType, BackendType, BootSource, CacheType, Drive, EntropyDevice, InstanceActionInfo,
    MachineConfiguration, MemoryBackend, PartialDrive, RateLimiter, SnapshotCreateParams, SnapshotLoadParams,
    SnapshotType, TokenBucket, Vm, VmState, Vsock,
};

const PAUSED: Vm = Vm { state: VmState::Paused };
const RESUMED: Vm = Vm { state: VmState::Resumed };
use super::{Api, ApiError};

/// Of every body that is sent: its fields in the published interface of Firecracker 1.16.1, those it
/// cannot do without marked with `!`, and after a colon what kind of value or which words it takes.
const PUBLISHED: &[(&str, &[&str])] = &[
    (
        "MachineConfiguration",
        &[
            "cpu_template:string",
            "smt:boolean",
            "mem_size_mib!:integer",
            "track_dirty_pages:boolean",
            "vcpu_count!:integer",
            "huge_pages:None|2M",
        ],
    ),
    ("BootSource", &["boot_args:string", "initrd_path:string", "kernel_image_path!:string"]),
    (
        "Drive",
        &[
            "drive_id!:string",
            "partuuid:string",
            "is_root_device!:boolean",
            "cache_type:Unsafe|Writeback",
            "is_read_only:boolean",
            "path_on_host:string",
            "rate_limiter:RateLimiter",
            "io_engine:Sync|Async",
            "socket:string",
        ],
    ),
    ("PartialDrive", &["drive_id!:string", "path_on_host:string", "rate_limiter:RateLimiter"]),
    ("RateLimiter", &["bandwidth:TokenBucket", "ops:TokenBucket"]),
    ("TokenBucket", &["one_time_burst:integer", "refill_time!:integer", "size!:integer"]),
    ("Vsock", &["guest_cid!:integer", "uds_path!:string", "vsock_id:string"]),
    ("EntropyDevice", &["rate_limiter:RateLimiter"]),
    ("InstanceActionInfo", &["action_type!:FlushMetrics|InstanceStart|SendCtrlAltDel"]),
    ("Vm", &["state!:Paused|Resumed"]),
    ("SnapshotCreateParams", &["mem_file_path!:string", "snapshot_path!:string", "snapshot_type:Full|Diff"]),
    (
        "SnapshotLoadParams",
        &[
            "enable_diff_snapshots:boolean",
            "track_dirty_pages:boolean",
            "mem_file_path:string",
            "mem_backend:MemoryBackend",
            "snapshot_path!:string",
            "resume_vm:boolean",
            "network_overrides:array",
            "vsock_override:VsockOverride",
            "clock_realtime:boolean",
        ],
    ),
    ("MemoryBackend", &["backend_type!:File|Uffd", "backend_path!:string"]),
];

fn check(name: &str, body: &impl Serialize) {
    validate(name, &serde_json::to_value(body).expect("JSON")).unwrap_or_else(|error| panic!("{error}"));
}

/// Whether a body is what the interface publishes under that name.
fn validate(name: &str, body: &Value) -> Result<(), String> {
    let (_, fields) = PUBLISHED.iter().find(|(known, _)| *known == name).ok_or(format!("no {name}"))?;
    let fields: Vec<(&str, &str)> = fields.iter().filter_map(|field| field.split_once(':')).collect();
    let sent = body.as_object().ok_or(format!("{name} is no object"))?;
    for (field, value) in sent {
        let known = fields.iter().find(|(known, _)| known.trim_end_matches('!') == field);
        let (_, kind) = known.ok_or(format!("{name} has no field {field}"))?;
        let right = match *kind {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64(),
            words if words.contains('|') => {
                value.as_str().is_some_and(|word| words.split('|').any(|w| w == word))
            }
            inner => validate(inner, value).map(|()| true)?,
        };
        if !right {
            return Err(format!("{name}.{field} is {value}, not {kind}"));
        }
    }
    match fields.iter().find_map(|(field, _)| field.strip_suffix('!').filter(|f| !sent.contains_key(*f))) {
        Some(needed) => Err(format!("{name} needs {needed}")),
        None => Ok(()),
    }
}

#[test]
fn bodies_that_firecracker_would_refuse_do_not_pass() {
    use firecracker_rs_sdk::models as sdk;
    let refused = |name: &str, body: Value| validate(name, &body).expect_err(name);
    let limiter = sdk::RateLimiter { bandwidth: None, ops: None };
    let error = refused("RateLimiter", serde_json::to_value(limiter).expect("JSON"));
    assert_eq!(error, "RateLimiter has no field banwidth", "the crate's own is still misspelt");
    let boot = sdk::BootSource { boot_args: None, initrd_path: None, kernel_image_path: "k".into() };
    let error = refused("BootSource", serde_json::to_value(boot).expect("JSON"));
    assert_eq!(error, "BootSource.boot_args is null, not string");
    refused("Vm", serde_json::json!({ "state": "Running" }));
    refused("Vm", serde_json::json!({}));
    refused("Drive", serde_json::json!({ "drive_id": "a", "is_root_device": "no" }));
}

#[test]
fn every_body_has_only_fields_of_the_published_interface() {
    let bucket = TokenBucket { size: 1, refill_time: 1 };
    let limiter = RateLimiter { bandwidth: Some(bucket), ops: Some(bucket) };
    let drive = Drive {
        drive_id: "a",
        path_on_host: "/a",
        is_root_device: false,
        is_read_only: true,
        cache_type: CacheType::Unsafe,
        rate_limiter: Some(limiter),
    };
    let machine = MachineConfiguration {
        vcpu_count: 1,
        mem_size_mib: 128,
        cpu_template: None,
        smt: None,
        track_dirty_pages: None,
        huge_pages: None,
    };
    check("MachineConfiguration", &machine);
    check("BootSource", &BootSource { kernel_image_path: "/kernel", boot_args: "quiet" });
    check("Drive", &Drive { rate_limiter: None, ..drive });
    check("Drive", &drive);
    check("PartialDrive", &PartialDrive { drive_id: "a", rate_limiter: limiter });
    check("RateLimiter", &limiter);
    check("RateLimiter", &RateLimiter { bandwidth: None, ops: Some(bucket) });
    check("TokenBucket", &bucket);
    check("Vsock", &Vsock { guest_cid: 3, uds_path: "run/agent.sock".into(), vsock_id: None });
    check("EntropyDevice", &EntropyDevice {});
    for action_type in [ActionType::InstanceStart, ActionType::FlushMetrics] {
        check("InstanceActionInfo", &InstanceActionInfo { action_type });
    }
    for state in [PAUSED, RESUMED] {
        check("Vm", &state);
    }
    let create = SnapshotCreateParams {
        snapshot_type: Some(SnapshotType::Full),
        snapshot_path: "s".into(),
        mem_file_path: "m".into(),
        version: None,
    };
    check("SnapshotCreateParams", &create);
    let backend = || MemoryBackend { backend_type: BackendType::File, backend_path: "m".into() };
    check("MemoryBackend", &backend());
    let load = SnapshotLoadParams {
        snapshot_path: "s".into(),
        mem_backend: Some(backend()),
        resume_vm: Some(true),
        mem_file_path: None,
        enable_diff_snapshots: None,
    };
    check("SnapshotLoadParams", &load);
}

/// A socket in a directory of its own.
fn listen() -> (tempfile::TempDir, PathBuf, UnixListener) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("api.sock");
    let listener = UnixListener::bind(&path).expect("bound");
    (dir, path, listener)
}

/// Reads one request: its head, and its body as JSON.
async fn request(stream: &mut UnixStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a request"));
    }
    let head = String::from_utf8(head).expect("text");
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
        .map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    (head, serde_json::from_slice(&body).unwrap_or_default())
}

async fn answer(stream: &mut UnixStream, status: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.expect("answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_share_one_connection_and_faults_carry_the_monitors_words() {
    let (_dir, path, listener) = listen();
    let monitor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("connected");
        let (head, body) = request(&mut stream).await;
        assert!(head.starts_with("PATCH /vm HTTP/1.1"), "{head}");
        assert_eq!(body["state"], "Paused");
        stream.write_all(b"HTTP/1.1 204 \r\nServer: test\r\n\r\n").await.expect("answered");
        // Answers of any length are read to their end, multiples of 64 among them.
        for length in [1, 63, 64, 65, 128, 4096] {
            request(&mut stream).await;
            let text = "x".repeat(length);
            answer(&mut stream, "400 Bad Request", &format!("{{\"fault_message\":\"{text}\"}}")).await;
        }
        request(&mut stream).await;
        answer(&mut stream, "500 Oh", "not JSON").await;
    });
    let api = Api::connect(path).await.expect("connected");
    api.patch("/vm", &PAUSED).await.expect("accepted");
    for length in [1, 63, 64, 65, 128, 4096] {
        let error = api.patch("/vm", &RESUMED).await.expect_err("refused");
        let ApiError::Refused { request, status: 400, message } = error else { panic!("{error:?}") };
        assert_eq!((request.as_str(), message.len()), ("PATCH /vm", length));
    }
    let error = api.patch("/vm", &RESUMED).await.expect_err("refused");
    assert_eq!(error.to_string(), "PATCH /vm was refused with status 500: not JSON");
    monitor.await.expect("the monitor saw one connection");
}

#[tokio::test]
async fn a_cancelled_request_drops_the_connection_and_the_next_one_gets_its_own_answer() {
    let (_dir, path, listener) = listen();
    let monitor = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.expect("connected");
        request(&mut first).await;
        let (mut second, _) = listener.accept().await.expect("connected again");
        request(&mut second).await;
        // The late answer to the first is nobody's.
        let _ = first.write_all(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n").await;
        answer(&mut second, "200 OK", "{}").await;
        assert_eq!(first.read(&mut [0; 1]).await.unwrap_or(0), 0, "the first connection is closed");
    });
    let api = Api::connect(path).await.expect("connected");
    let body = PAUSED;
    let cancelled = tokio::time::timeout(Duration::from_millis(50), api.patch("/vm", &body)).await;
    assert!(cancelled.is_err());
    api.patch("/vm", &body).await.expect("its own answer");
    monitor.await.expect("done");
}

#[tokio::test]
async fn a_monitor_that_dies_in_a_request_is_an_error_at_once() {
    let (_dir, path, listener) = listen();
    let monitor = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("connected");
        request(&mut stream).await;
        drop(listener);
    });
    let api = Api::connect(path).await.expect("connected");
    let error = api.patch("/vm", &PAUSED).await.expect_err("it is gone");
    assert!(matches!(error, ApiError::Channel { .. }), "{error:?}");
    monitor.await.expect("done");
    let error = api.patch("/vm", &PAUSED).await.expect_err("it is gone");
    assert!(matches!(error, ApiError::Connect { .. }), "{error:?}");
}
