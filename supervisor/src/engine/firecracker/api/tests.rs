//! The bodies against the published interface, and the client against a monitor made of a few lines.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::models::{
    BootSource, Drive, EntropyDevice, InstanceActionInfo, MachineConfiguration, MemoryBackend, PartialDrive,
    RateLimiter, SnapshotCreateParams, SnapshotLoadParams, TokenBucket, Vm, Vsock,
};
use super::{Api, ApiError};

/// Of every body that is sent: its fields in the published interface of Firecracker 1.16.1, those it
/// cannot do without marked with `!`.
const PUBLISHED: &[(&str, &[&str])] = &[
    (
        "MachineConfiguration",
        &["cpu_template", "smt", "mem_size_mib!", "track_dirty_pages", "vcpu_count!", "huge_pages"],
    ),
    ("BootSource", &["boot_args", "initrd_path", "kernel_image_path!"]),
    (
        "Drive",
        &[
            "drive_id!",
            "partuuid",
            "is_root_device!",
            "cache_type",
            "is_read_only",
            "path_on_host",
            "rate_limiter",
            "io_engine",
            "socket",
        ],
    ),
    ("PartialDrive", &["drive_id!", "path_on_host", "rate_limiter"]),
    ("RateLimiter", &["bandwidth", "ops"]),
    ("TokenBucket", &["one_time_burst", "refill_time!", "size!"]),
    ("Vsock", &["guest_cid!", "uds_path!", "vsock_id"]),
    ("EntropyDevice", &["rate_limiter"]),
    ("InstanceActionInfo", &["action_type!"]),
    ("Vm", &["state!"]),
    ("SnapshotCreateParams", &["mem_file_path!", "snapshot_path!", "snapshot_type"]),
    (
        "SnapshotLoadParams",
        &[
            "enable_diff_snapshots",
            "track_dirty_pages",
            "mem_file_path",
            "mem_backend",
            "snapshot_path!",
            "resume_vm",
            "network_overrides",
            "vsock_override",
            "clock_realtime",
        ],
    ),
    ("MemoryBackend", &["backend_type!", "backend_path!"]),
];

fn check(name: &str, body: &impl Serialize) {
    let (_, fields) = PUBLISHED.iter().find(|(known, _)| *known == name).expect("it is in the table");
    let json = serde_json::to_value(body).expect("JSON");
    let sent = json.as_object().expect("an object");
    for (field, value) in sent {
        let known = fields.iter().any(|known| known.trim_end_matches('!') == field);
        assert!(known, "{name} has no field {field}");
        assert!(!value.is_null(), "{name}.{field}: what is not set is left out");
    }
    for needed in fields.iter().filter_map(|field| field.strip_suffix('!')) {
        assert!(sent.contains_key(needed), "{name} needs {needed}");
    }
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
        cache_type: "Unsafe",
        rate_limiter: Some(limiter),
    };
    check("MachineConfiguration", &MachineConfiguration { vcpu_count: 1, mem_size_mib: 128 });
    check("BootSource", &BootSource { kernel_image_path: "/kernel", boot_args: "quiet" });
    check("Drive", &Drive { rate_limiter: None, ..drive });
    check("Drive", &drive);
    check("PartialDrive", &PartialDrive { drive_id: "a", rate_limiter: limiter });
    check("RateLimiter", &limiter);
    check("RateLimiter", &RateLimiter { bandwidth: None, ops: Some(bucket) });
    check("TokenBucket", &bucket);
    check("Vsock", &Vsock { guest_cid: 3, uds_path: "/run/agent.sock" });
    check("EntropyDevice", &EntropyDevice {});
    check("InstanceActionInfo", &InstanceActionInfo { action_type: "InstanceStart" });
    check("Vm", &Vm { state: "Paused" });
    let create = SnapshotCreateParams { snapshot_type: "Full", snapshot_path: "/s", mem_file_path: "/m" };
    check("SnapshotCreateParams", &create);
    let backend = || MemoryBackend { backend_type: "File", backend_path: "/m" };
    check("MemoryBackend", &backend());
    let load = SnapshotLoadParams { snapshot_path: "/s", mem_backend: backend(), resume_vm: true };
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
    api.patch("/vm", &Vm { state: "Paused" }).await.expect("accepted");
    for length in [1, 63, 64, 65, 128, 4096] {
        let error = api.patch("/vm", &Vm { state: "Resumed" }).await.expect_err("refused");
        let ApiError::Refused { request, status: 400, message } = error else { panic!("{error:?}") };
        assert_eq!((request.as_str(), message.len()), ("PATCH /vm", length));
    }
    let error = api.patch("/vm", &Vm { state: "Resumed" }).await.expect_err("refused");
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
    let body = Vm { state: "Paused" };
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
    let error = api.patch("/vm", &Vm { state: "Paused" }).await.expect_err("it is gone");
    assert!(matches!(error, ApiError::Channel { .. }), "{error:?}");
    monitor.await.expect("done");
    let error = api.patch("/vm", &Vm { state: "Paused" }).await.expect_err("it is gone");
    assert!(matches!(error, ApiError::Connect { .. }), "{error:?}");
}
