//! A host that gives the supervisor no more processes and threads: starts fail and say why, what runs goes on, and once
//! there are some again nothing has to be started anew.

use std::fs;
use std::path::{Path, PathBuf};

use rekindle_api::v1::{CreateSandboxRequest, ErrorReason};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

use crate::calls::{create, destroy, output, reason, shell};

/// Nothing is made ahead, so that every start needs a process of its own.
const NONE_READY: &str = "pool.templates={ minimal = { parked_low = 0, parked_high = 0, prespawned = 0 } }";

/// A control group in which a server keeps the processes and threads it has, and gets none.
struct NoMoreProcesses {
    group: PathBuf,
    home: PathBuf,
}

impl NoMoreProcesses {
    fn for_server(server: &Server) -> std::io::Result<Self> {
        let pid = server.pid().to_string();
        let member = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let groups = Path::new("/sys/fs/cgroup");
        let of = |hierarchy: &str| {
            member.lines().find_map(|line| line.split_once(hierarchy).map(|(_, path)| path))
        };
        let home = match (of(":pids:"), of("0::")) {
            (Some(path), _) => groups.join("pids").join(path.trim_start_matches('/')),
            (None, Some(path)) => groups.join(path.trim_start_matches('/')),
            (None, None) => return Err(std::io::ErrorKind::Unsupported.into()),
        };
        // Beside the machines' groups and not above: they have bounds of their own.
        let group = home.join(format!("rekindle-e2e-processes-{pid}"));
        fs::create_dir(&group)?;
        let this = Self { group, home };
        fs::write(this.group.join("cgroup.procs"), &pid)?;
        // Fewer than there are: one that ends makes no room either.
        fs::write(this.group.join("pids.max"), "0")?;
        Ok(this)
    }
}

impl Drop for NoMoreProcesses {
    fn drop(&mut self) {
        for pid in fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(self.home.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_processes_refuses_starts_and_serves_what_runs() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[NONE_READY]).await;
    let client = server.client().await;
    let sandbox = create(&client).await;
    assert_eq!(output(&client, &sandbox.id, shell("echo before")).await, "before");
    let none = match NoMoreProcesses::for_server(&server) {
        Ok(none) => none,
        Err(error) => {
            server.stop(&leftovers::machines(data.path())).await;
            rekindle_test_support::skip!("no control group that bounds processes: {error}")
        }
    };
    for attempt in 0..3 {
        let refused = client.clone().sandboxes.create(CreateSandboxRequest::default()).await;
        let status = refused.expect_err("there is no process for it");
        assert_eq!(reason(&status), ErrorReason::StartFailed, "{status:?}");
        let meanwhile = output(&client, &sandbox.id, shell(&format!("echo {attempt}"))).await;
        assert_eq!(meanwhile, attempt.to_string(), "what runs goes on");
    }
    drop(none);
    let other = create(&client).await;
    assert_eq!(output(&client, &other.id, shell("echo after")).await, "after");
    assert_eq!(output(&client, &sandbox.id, shell("echo still")).await, "still");
    destroy(&client, &other.id).await;
    server.stop(&leftovers::machines(data.path())).await;
}
