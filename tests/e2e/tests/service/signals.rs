//! How a service is asked to end, and that there is only one of it on a socket and in a data directory.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rekindle_api::Code;
use rekindle_api::v1::{CreateSandboxRequest, ErrorReason, SandboxEndReason};
use rekindle_e2e::cli::{command, ended};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

use crate::calls::{begun, create, execute, output, reason, shell};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_asked_to_end_lets_calls_finish_takes_no_more_and_leaves_nothing() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let mut client = server.client().await;
    let (sandbox, idle) = tokio::join!(create(&client), create(&client));
    let under_way = {
        let (client, id) = (client.clone(), sandbox.id.clone());
        tokio::spawn(async move { output(&client, &id, shell("touch begun; sleep 3; echo finished")).await })
    };
    begun(&client, &sandbox.id).await;
    let machines = leftovers::machines(data.path());
    assert!(machines.len() >= 2, "{machines:?}");
    server.signal(Signal::SIGTERM);
    // It may take a moment to hear.
    let began = Instant::now();
    let refused = loop {
        match client.sandboxes.create(CreateSandboxRequest::default()).await {
            Err(status) => break status,
            Ok(_) => assert!(began.elapsed() < Duration::from_secs(2), "it takes new sandboxes"),
        }
    };
    assert_eq!((refused.code(), reason(&refused)), (Code::Unavailable, ErrorReason::ShuttingDown));
    assert_eq!(under_way.await.expect("ends"), "finished", "a call under way is let finish");
    drop((client, idle));
    let socket = server.socket().to_owned();
    server.ended_well().await;
    assert!(!socket.exists(), "the socket is removed");
    leftovers::find(data.path(), &machines, &BTreeSet::new()).assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_do_not_finish_are_cut_off_when_the_drain_is_over_and_told_why() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &["shutdown.drain_s=1"]).await;
    let client = server.client().await;
    let sandbox = create(&client).await;
    let under_way = {
        let (client, id) = (client.clone(), sandbox.id.clone());
        tokio::spawn(async move { execute(&client, &id, shell("touch begun; sleep 1000")).await })
    };
    begun(&client, &sandbox.id).await;
    let machines = leftovers::machines(data.path());
    server.signal(Signal::SIGTERM);
    let cut = under_way.await.expect("ends").expect_err("it is cut off");
    assert_eq!((cut.code(), reason(&cut)), (Code::Unavailable, ErrorReason::SandboxEnded), "{cut:?}");
    let end = rekindle_api::detail(&cut).and_then(|detail| detail.end).map(|end| end.reason());
    assert_eq!(end, Some(SandboxEndReason::Shutdown));
    server.ended_well().await;
    leftovers::find(data.path(), &machines, &BTreeSet::new()).assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_service_on_the_same_socket_or_data_is_refused_and_the_first_goes_on() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let client = server.client().await;
    let sandbox = create(&client).await;
    let elsewhere = lab.copy();
    let taken = format!("listen.socket={}", server.socket().display());
    let free = format!("listen.socket={}", elsewhere.path().join("free.sock").display());
    for (where_to, socket, why) in [
        (elsewhere.path(), &taken, "another supervisor serves on"),
        (data.path(), &free, "another supervisor uses the ledger"),
    ] {
        let words = ["serve", "--set", socket, "--set", "sandbox.default_template=minimal"];
        let second = ended(&mut command(where_to, &words)).await;
        assert_eq!(second.code, Some(125), "{second:?}");
        assert!(second.stderr.contains(why), "{second:?}");
        assert!(second.stderr.contains("hint: "), "{second:?}");
        assert_eq!(second.stdout, "", "it never said that it serves");
    }
    assert_eq!(leftovers::supervisors(data.path()).len(), 1, "nothing of the second is left");
    assert_eq!(leftovers::supervisors(elsewhere.path()).len(), 0, "nothing of the second is left");
    assert_eq!(output(&client, &sandbox.id, shell("echo alive")).await, "alive");
    let fresh = server.client().await;
    assert_eq!(output(&fresh, &sandbox.id, shell("echo reachable")).await, "reachable");
    server.stop(&leftovers::machines(data.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_manager_is_told_what_it_does_when_it_serves_and_when_it_stops() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let path = data.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_nonblocking(true).expect("set");
    let told = || {
        let mut words = [0; 512];
        manager.recv(&mut words).ok().map(|size| String::from_utf8_lossy(&words[..size]).into_owned())
    };
    let mut server = Server::launch_with(data.path(), &[], &[("NOTIFY_SOCKET", &path)]);
    server.ready().await;
    assert!(told().expect("told").contains("the template minimal"));
    server.client().await;
    let ready = told().expect("whoever is told can connect");
    assert!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    server.stop(&leftovers::machines(data.path())).await;
    let stopping = told().expect("told");
    assert!(stopping.lines().any(|line| line == "STOPPING=1"), "{stopping}");
    assert_eq!(told(), None);
}
