//! A pause that keeps the disk alone, on a real machine: files remain, programs do not, another kernel runs.

use rekindle_api::client::Client;
use rekindle_api::v1::{
    CreateSandboxRequest, ErrorReason, ExecuteRequest, PauseSandboxRequest, ResumeSandboxRequest,
    StartExecutionRequest,
};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

use crate::calls::{create, create_with, destroy, execute, output, reason, shell};

/// Nothing waits ready: a machine that is there is a sandbox's.
const NO_POOL: &str = "pool.templates={ minimal = { parked_low = 0, parked_high = 0, prespawned = 0 } }";

/// What tells one boot from another, and one machine.
const WHO: &str = "cat /proc/sys/kernel/random/boot_id; hostname; cat /etc/machine-id";

/// What a line printed that root ran.
async fn as_root(client: &Client, sandbox: &str, line: &str) -> String {
    let request = ExecuteRequest {
        sandbox: sandbox.into(),
        program: Some(shell(line)),
        user: "root".into(),
        ..ExecuteRequest::default()
    };
    let ended = client.sandboxes.clone().execute(request).await.expect("it runs").into_inner();
    ended.stdout.unwrap_or_default().text.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_without_memory_keeps_the_files_and_boots_another_kernel() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[NO_POOL]).await;
    let client = server.client().await;
    let request = CreateSandboxRequest {
        env: [("WHO".to_owned(), "me".to_owned())].into(),
        ..CreateSandboxRequest::default()
    };
    let (sandbox, other) = tokio::join!(create_with(&client, request), create(&client));
    let (id, other) = (sandbox.id, other.id);
    let write = "echo kept > ~/file; mkdir -p ~/deep/er; seq 100000 > ~/deep/er/numbers; echo t > /tmp/tmp; \
                 cksum < ~/deep/er/numbers";
    let sum = output(&client, &id, shell(write)).await;
    // What is left running is asked to end, and does not go on.
    let left = "trap 'echo asked > ~/asked; exit 0' TERM; setsid sleep 4711 & touch ~/left; while :; do sleep 0.1; done";
    let left = StartExecutionRequest {
        request: Some(ExecuteRequest {
            sandbox: id.clone(),
            program: Some(shell(left)),
            ..ExecuteRequest::default()
        }),
        ..StartExecutionRequest::default()
    };
    client.executions.clone().start(left).await.expect("started");
    output(&client, &id, shell("until test -e ~/left; do sleep 0.1; done")).await;
    let outside = "echo outside > /opt/outside; chmod 4711 /opt/outside; rm /etc/issue; mkdir /srv/dir; \
                   ln -s /opt/outside /srv/link; ls /etc/issue 2>&1; stat -c %a /opt/outside";
    let made = as_root(&client, &id, outside).await;
    assert!(made.ends_with("4711"), "{made}");
    let spilled = execute(&client, &id, shell("seq 300000")).await.expect("ran");
    let spilled = String::from_utf8(spilled.stdout.expect("output").spilled_path.to_vec()).expect("a path");
    output(&client, &other, shell("echo other > ~/file")).await;
    let (before, boot_of_other) =
        (output(&client, &id, shell(WHO)).await, output(&client, &other, shell(WHO)).await);
    assert_eq!(leftovers::monitors(data.path()).len(), 2);

    let pause = PauseSandboxRequest { sandbox: id.clone(), without_memory: true };
    let paused = client.sandboxes.clone().pause(pause.clone()).await.expect("paused").into_inner();
    assert!(paused.without_memory);
    assert_eq!(paused.usage.and_then(|usage| usage.memory_bytes).unwrap_or(0), 0);
    assert_eq!(leftovers::monitors(data.path()).len(), 1, "its monitor is gone, and all its memory");
    let refused = execute(&client, &id, shell("true")).await.expect_err("it is paused");
    assert_eq!(reason(&refused), ErrorReason::SandboxPaused);
    assert_eq!(output(&client, &other, shell("cat ~/file")).await, "other");

    let resume = ResumeSandboxRequest { sandbox: id.clone() };
    client.sandboxes.clone().resume(resume.clone()).await.expect("resumed");
    let after = output(&client, &id, shell(WHO)).await;
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    assert_ne!(before[0], after[0], "another boot");
    assert_eq!(before[1..], after[1..], "the same machine to its programs");
    let read = "cat ~/file /tmp/tmp ~/asked; echo $WHO; ps ax 2>/dev/null | grep -c '[s]leep 4711' || true; cksum < ~/deep/er/numbers";
    assert_eq!(output(&client, &id, shell(read)).await, format!("kept\nt\nasked\nme\n0\n{sum}"));
    let there = "cat /opt/outside; stat -c '%a %U' /opt/outside; ls /etc/issue 2>&1 || true; readlink /srv/link; ls -d /srv/dir";
    let there = as_root(&client, &id, there).await;
    assert!(
        there.starts_with("outside\n4711 root\n") && there.ends_with("/opt/outside\n/srv/dir"),
        "{there}"
    );
    assert!(
        there.contains("No such file") || there.contains("cannot access"),
        "what was removed stays so: {there}"
    );
    assert_eq!(output(&client, &id, shell(&format!("tail -n 1 {spilled}"))).await, "300000");
    let more = execute(&client, &id, shell("seq 200000")).await.expect("ran").stdout.expect("output");
    assert_ne!(more.spilled_path, spilled.as_bytes(), "what was spilled before is not written over");
    assert_eq!(output(&client, &id, shell(&format!("tail -n 1 {spilled}"))).await, "300000");
    let now = output(&client, &id, shell("date +%s")).await.parse::<u64>().expect("a time");
    let host =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(now.abs_diff(host) < 60, "the clock is right: {now}, {host}");
    assert_eq!(output(&client, &other, shell(WHO)).await, boot_of_other, "nobody else was touched");

    // And once more, from what was booted.
    output(&client, &id, shell("echo again > ~/again; rm ~/file")).await;
    client.sandboxes.clone().pause(pause).await.expect("paused");
    client.sandboxes.clone().resume(resume).await.expect("resumed");
    let read = "cat ~/again; ls ~/file 2>/dev/null || echo gone; cat /opt/outside";
    assert_eq!(as_root(&client, &id, &read.replace('~', "/home/user")).await, "again\ngone\noutside");
    destroy(&client, &id).await;
    destroy(&client, &other).await;
    server.stop(&leftovers::machines(data.path())).await;
}
