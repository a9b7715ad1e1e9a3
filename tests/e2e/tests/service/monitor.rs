//! A monitor that was taken over, under the whole service: whatever it does, the start fails and says why, nothing is left
//! of it, and the next start works.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rekindle::engine::EngineKind;
use rekindle::engine::qemu::find;
use rekindle_api::v1::{CreateSandboxRequest, ErrorReason};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::{Held, Server};

use crate::calls::{create, destroy, output, reason, shell};
use crate::held::{assert_same, settled};

/// The monitor, a program in Python.
const HOSTILE: &str = include_str!("hostile_monitor.py");
/// What it does. One that keeps silent, or goes on without end, is met at the deadline of starts, which takes too long to
/// wait for here.
const MANNERS: [&str; 9] = [
    "ends",
    "dies",
    "hangs up",
    "says nonsense",
    "prints and prints",
    "sends one line without end",
    "sends events and nothing else",
    "refuses at length",
    "says yes to everything",
];
/// Nothing is made ahead, so that every start meets the monitor as it is then.
const NONE_READY: &str = "pool.templates={ minimal = { parked_low = 0, parked_high = 0, prespawned = 0 } }";
/// What a failure may be told with.
const LONGEST: usize = 8 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_monitor_does_its_start_fails_and_the_next_one_works() {
    let lab = lab!();
    let (EngineKind::Qemu, Ok(qemu), true) =
        (rekindle_e2e::engine(), find(None), Path::new("/usr/bin/python3").exists())
    else {
        rekindle_test_support::skip!("it is QEMU that is replaced, by a program in Python")
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let place = tempfile::tempdir().expect("a directory");
    // The monitor runs as a user of its own.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("open to all");
    let (program, manner) = (place.path().join("monitor.py"), place.path().join("manner"));
    fs::write(&program, HOSTILE).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    symlink(qemu.path, place.path().join("qemu")).expect("a link");
    fs::write(&manner, "good").expect("written");
    let mut server = Server::launch_with(data.path(), &[NONE_READY], &[("REKINDLE_QEMU", &program)]);
    server.ready().await;
    let client = server.client().await;
    let before = create(&client).await;
    let mut after_first: Option<Held> = None;
    for kind in MANNERS {
        fs::write(&manner, kind).expect("written");
        let refused = client.clone().sandboxes.create(CreateSandboxRequest::default()).await;
        let status = refused.expect_err(kind);
        assert_eq!(reason(&status), ErrorReason::StartFailed, "{kind}: {status:?}");
        let text = status.message();
        let strange = |c: char| c.is_control() && c != '\n';
        assert!(text.len() < LONGEST && !text.contains(strange), "{kind}: {text:?}");
        eprintln!("a monitor that {kind}: {text}");

        fs::write(&manner, "good").expect("written");
        let next = create(&client).await;
        assert_eq!(output(&client, &next.id, shell("echo next")).await, "next", "after one that {kind}");
        destroy(&client, &next.id).await;
        assert_eq!(
            output(&client, &before.id, shell("echo before")).await,
            "before",
            "beside one that {kind}"
        );
        let held = settled(&server, 0, 0).await;
        assert_same(*after_first.get_or_insert(held), held);
    }
    server.stop(&leftovers::machines(data.path())).await;
}
