//! The client against a monitor played by the test.

mod hostile;

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{Qmp, QmpError};

const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n";

struct Monitor(BufReader<UnixStream>);

impl Monitor {
    async fn request(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn say(&mut self, value: Value) {
        self.0.write_all(format!("{value}\n").as_bytes()).await.expect("written");
    }

    async fn accept(&mut self) -> Value {
        let request = self.request().await;
        self.say(json!({ "return": {}, "id": request["id"] })).await;
        request
    }
}

async fn connected() -> (Qmp, Monitor) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let mut monitor = Monitor(BufReader::new(theirs));
    monitor.0.write_all(GREETING.as_bytes()).await.expect("written");
    let (client, request) = tokio::join!(Qmp::connect(ours), monitor.accept());
    assert_eq!(request["execute"], "qmp_capabilities");
    (client.expect("connected"), monitor)
}

#[tokio::test]
async fn replies_reach_their_callers_even_out_of_order_and_between_events() {
    let (client, mut monitor) = connected().await;
    let play = async {
        let first = monitor.request().await;
        let second = monitor.request().await;
        monitor.say(json!({ "event": "STOP", "timestamp": {} })).await;
        monitor.say(json!({ "return": { "n": 2 }, "id": second["id"] })).await;
        monitor.say(json!({ "return": { "n": 1 }, "id": first["id"] })).await;
    };
    let calls = async {
        tokio::join!(client.execute("first", Value::Null), client.execute("second", json!({ "a": 1 })))
    };
    let ((first, second), ()) = tokio::join!(calls, play);
    assert_eq!(
        (first.expect("first")["n"].clone(), second.expect("second")["n"].clone()),
        (json!(1), json!(2))
    );
}

#[tokio::test]
async fn a_refusal_carries_the_monitors_own_words() {
    let (client, mut monitor) = connected().await;
    let play = async {
        let request = monitor.request().await;
        monitor
            .say(
                json!({ "error": { "class": "GenericError", "desc": "no such thing" }, "id": request["id"] }),
            )
            .await;
    };
    let (result, ()) = tokio::join!(client.execute("cont", Value::Null), play);
    let error = result.expect_err("refused");
    assert_eq!(error.to_string(), "cont was refused: no such thing (GenericError)");
}

#[tokio::test]
async fn a_monitor_that_goes_away_ends_every_call_and_every_wait() {
    let (client, monitor) = connected().await;
    let subscription = client.subscribe();
    let play = async {
        tokio::task::yield_now().await;
        drop(monitor);
    };
    let (call, wait, ()) =
        tokio::join!(client.execute("stop", Value::Null), client.migration_completed(subscription), play);
    assert!(matches!(call, Err(QmpError::Closed { .. } | QmpError::Channel { .. })), "{call:?}");
    assert!(matches!(wait, Err(QmpError::Closed { .. })), "{wait:?}");
    let later = client.execute("cont", Value::Null).await;
    assert!(later.is_err());
}

#[tokio::test]
async fn a_cancelled_call_leaves_the_channel_in_step() {
    let (client, mut monitor) = connected().await;
    let slow = tokio::time::timeout(Duration::from_millis(20), client.execute("slow", Value::Null)).await;
    assert!(slow.is_err());
    let abandoned = monitor.request().await;
    let play = async {
        let request = monitor.request().await;
        monitor.say(json!({ "return": "stale", "id": abandoned["id"] })).await;
        monitor.say(json!({ "return": "fresh", "id": request["id"] })).await;
    };
    let (result, ()) = tokio::join!(client.execute("next", Value::Null), play);
    assert_eq!(result.expect("answered"), json!("fresh"));
}

#[tokio::test]
async fn a_failed_migration_says_why() {
    let (client, mut monitor) = connected().await;
    let subscription = client.subscribe();
    let play = async {
        for status in ["setup", "active", "failed"] {
            monitor.say(json!({ "event": "MIGRATION", "data": { "status": status } })).await;
        }
        let request = monitor.request().await;
        monitor
            .say(json!({ "return": { "status": "failed", "error-desc": "disk full" }, "id": request["id"] }))
            .await;
    };
    let (result, ()) = tokio::join!(client.migration_completed(subscription), play);
    assert_eq!(result.expect_err("failed").to_string(), "the migration ended as \"failed\": disk full");
}

#[tokio::test]
async fn a_flood_of_events_does_not_hide_the_end_of_a_migration() {
    let (client, mut monitor) = connected().await;
    let subscription = client.subscribe();
    for _ in 0..500 {
        monitor.say(json!({ "event": "RTC_CHANGE", "data": { "offset": 1 } })).await;
    }
    monitor.say(json!({ "event": "MIGRATION", "data": { "status": "completed" } })).await;
    let play = async {
        let request = monitor.request().await;
        monitor.say(json!({ "return": { "status": "completed" }, "id": request["id"] })).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = client.migration_completed(subscription) => result.expect("completed"),
        () = play => unreachable!(),
    }
}

#[tokio::test]
async fn garbage_and_endless_lines_close_the_channel() {
    for garbage in [b"not json\n".to_vec(), b"[1,2]\n".to_vec(), vec![b'x'; 1 << 20]] {
        let (client, mut monitor) = connected().await;
        // A flood nobody reads any more blocks the monitor, not us.
        tokio::spawn(async move {
            monitor.request().await;
            let _ = monitor.0.write_all(&garbage).await;
        });
        let result = client.execute("stop", Value::Null).await;
        assert!(matches!(result, Err(QmpError::Closed { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn something_that_does_not_greet_is_refused() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.write_all(b"{\"event\": \"HELLO\"}\n").await.expect("written");
    assert!(matches!(Qmp::connect(ours).await, Err(QmpError::Unexpected { .. })));
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    drop(theirs);
    assert!(matches!(Qmp::connect(ours).await, Err(QmpError::Closed { .. })));
}

#[tokio::test]
async fn a_descriptor_travels_with_its_command() {
    let (client, mut monitor) = connected().await;
    let file = tempfile::tempfile().expect("a file");
    let play = async {
        monitor.0.get_ref().readable().await.expect("readable");
        let mut buffer = [0_u8; 512];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let mut space = cmsg_space!(RawFd);
        let message =
            recvmsg::<()>(monitor.0.get_ref().as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty())
                .expect("received");
        let fds: Vec<RawFd> = message
            .cmsgs()
            .expect("parsed")
            .flat_map(|part| if let ControlMessageOwned::ScmRights(fds) = part { fds } else { Vec::new() })
            .collect();
        assert_eq!(fds.len(), 1);
        // SAFETY: the kernel has just given us this descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(fds[0]) });
        let count = message.bytes;
        let request: Value = serde_json::from_slice(&buffer[..count]).expect("JSON");
        monitor.say(json!({ "return": {}, "id": request["id"] })).await;
    };
    let (result, ()) =
        tokio::join!(client.execute_with_fd("getfd", json!({ "fdname": "state" }), file.as_fd()), play);
    result.expect("accepted");
}
