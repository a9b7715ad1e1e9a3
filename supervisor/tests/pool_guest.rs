//! The fake guest keeps the protocol well enough for the tests above it: held against the real client.

use std::time::Duration;

use rekindle::agent::{
    AgentClient, Command, EnvVar, Event, ExecuteRequest, FileKind, GuestPath, MkdirOptions, Outcome, Program,
    Refusal, RestoreRequest, Stdin, TransferPatience, UploadOptions,
};
use rekindle_fake_guest::{Guest, Guests};
use rekindle_test_support::wait::until;

const SOON: Duration = Duration::from_secs(60);
const PATIENCE: TransferPatience = TransferPatience { stall: SOON, total: SOON };

async fn closed() -> (AgentClient, Guest) {
    let guests = Guests::default();
    let (host, guest) = tokio::io::duplex(64 * 1024);
    guests.handler()(guest);
    let client = AgentClient::connect(host, SOON).await.expect("a session");
    (client, guests.all().remove(0))
}

fn restore() -> RestoreRequest {
    let env = vec![EnvVar { name: "A".into(), value: "sandbox".into() }];
    RestoreRequest { entropy: vec![7; 64].into(), hostname: "box".into(), env, ..RestoreRequest::default() }
}

async fn open() -> (AgentClient, Guest) {
    let (client, guest) = closed().await;
    client.restore(restore(), SOON).await.expect("opened");
    (client, guest)
}

fn shell(line: &str) -> ExecuteRequest {
    ExecuteRequest { program: Some(Program::Shell(line.into())), ..ExecuteRequest::default() }
}

fn path(text: &str) -> GuestPath {
    text.parse().expect("a path")
}

#[tokio::test]
async fn the_gate_is_closed_until_a_restore_and_opened_again_only_by_a_renewal() {
    let (client, guest) = closed().await;
    let refused = client.run(shell("true")).await.expect_err("closed");
    assert_eq!(refused.refusal(), Some(Refusal::GateClosed));
    client.restore(restore(), SOON).await.expect("opened");
    let again = client.restore(restore(), SOON).await.expect_err("open already");
    assert_eq!(again.refusal(), Some(Refusal::InvalidArgument));
    let renewal = RestoreRequest { renew: true, hostname: "other".into(), ..restore() };
    client.restore(renewal, SOON).await.expect("renewed");
    assert_eq!(guest.restores().len(), 2);
    assert_eq!(client.run(shell("hostname")).await.expect("it ran").stdout.text, "other\n");
}

#[tokio::test]
async fn executions_do_what_their_words_say() {
    let (client, guest) = open().await;
    let argv = vec!["echo".into(), "one".into(), "two".into()];
    let program = Some(Program::Command(Command { argv }));
    let said = client.run(ExecuteRequest { program, ..ExecuteRequest::default() }).await.expect("it ran");
    assert_eq!((said.outcome, said.stdout.text.as_str()), (Outcome::Exited(0), "one two\n"));
    let failed = client.run(shell("err no; fail 3; echo never")).await.expect("it ran");
    assert_eq!((failed.outcome, failed.stderr.text.as_str()), (Outcome::Exited(3), "no\n"));
    assert_eq!(failed.stdout.text, "");
    assert_eq!(client.run(shell("nonsense")).await.expect("it ran").outcome, Outcome::Exited(127));
    assert_eq!(client.run(shell("env A")).await.expect("it ran").stdout.text, "sandbox\n");
    assert_eq!(client.run(shell("oom")).await.expect("it ran").outcome, Outcome::OutOfMemory);
    let slow = ExecuteRequest { timeout_millis: 20, ..shell("sleep 60000") };
    assert_eq!(client.run(slow).await.expect("it ran").outcome, Outcome::TimedOut);
    let flood = client.run(shell("flood 1000000")).await.expect("it ran");
    assert!(flood.stdout.truncated);
    assert_eq!(flood.stdout.total_bytes, 1_000_000);
    let kept = flood.stdout.spilled_path.expect("kept");
    let mut whole = Vec::new();
    client.download(&kept, u64::MAX, &mut whole, PATIENCE).await.expect("downloaded");
    assert_eq!(whole.len(), 1_000_000);
    assert_eq!(guest.executed()[0], "echo one two");
    assert_eq!(guest.running(), 0);
}

#[tokio::test]
async fn input_arrives_output_is_streamed_and_a_signal_ends_it() {
    let (client, guest) = open().await;
    let request = ExecuteRequest { stdin: Stdin::Live.into(), stream: true, ..shell("cat; sleep 60000") };
    let mut execution = client.execute(request).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live input");
    stdin.send("hello".into()).await.expect("taken");
    match execution.next().await.expect("an event") {
        Some(Event::Output { data, .. }) => assert_eq!(&data[..], b"hello"),
        other => panic!("{other:?}"),
    }
    stdin.eof();
    client.signal(execution.started().execution, 15, false, SOON).await.expect("sent");
    assert_eq!(execution.wait().await.expect("it ended").outcome, Outcome::Signaled(15));
    let dropped = client.execute(shell("sleep 60000")).await.expect("started");
    assert_eq!(guest.running(), 1);
    drop(dropped);
    until("a host that hangs up cancels", || guest.running() == 0).await;
}

#[tokio::test]
async fn files_go_in_and_come_out_and_can_be_listed_and_removed() {
    let (client, guest) = open().await;
    let content: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let options = UploadOptions { mode: 0o600, must_not_exist: true, ..UploadOptions::default() };
    client.upload_bytes(&path("dir/file"), options.clone(), &content, PATIENCE).await.expect("uploaded");
    let twice = client.upload_bytes(&path("dir/file"), options, b"x", PATIENCE).await.expect_err("exists");
    assert_eq!(twice.refusal(), Some(Refusal::AlreadyExists));
    assert_eq!(guest.file("/home/user/dir/file").expect("there"), content);
    let mut back = Vec::new();
    client.download(&path("dir/../dir/file"), u64::MAX, &mut back, PATIENCE).await.expect("downloaded");
    assert_eq!(back, content);
    let info = client.stat(&path("dir/file"), false, SOON).await.expect("there");
    assert_eq!((info.kind, info.size, info.mode), (FileKind::File, 200_000, 0o600));
    client.mkdir(&path("dir/sub"), MkdirOptions::default(), SOON).await.expect("made");
    let listing = client.list(&path("dir"), 0, SOON).await.expect("listed");
    let names: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(names, ["file", "sub"]);
    let both = MkdirOptions { parents: true, must_not_exist: true, ..MkdirOptions::default() };
    let twice = client.mkdir(&path("dir/sub"), both, SOON).await.expect_err("exists");
    assert_eq!(twice.refusal(), Some(Refusal::AlreadyExists));
    client.rename(&path("dir"), &path("made/moved"), true, SOON).await.expect("moved");
    let kept = client.rename(&path("made/moved/file"), &path("made/moved/sub"), true, SOON).await;
    assert_eq!(kept.expect_err("exists").refusal(), Some(Refusal::AlreadyExists));
    let itself = client.rename(&path("made"), &path("made/moved/sub/made"), false, SOON).await;
    assert_eq!(itself.expect_err("into itself").refusal(), Some(Refusal::InvalidArgument));
    assert_eq!(guest.file("/home/user/made/moved/file").expect("there"), content);
    client.rename(&path("made/moved"), &path("dir"), false, SOON).await.expect("moved back");
    let mut archive = Vec::new();
    client.download(&path("dir"), u64::MAX, &mut archive, PATIENCE).await.expect("an archive");
    assert!(archive.len() > content.len());
    let full = client.remove(&path("dir"), false, SOON).await.expect_err("not empty");
    assert_eq!(full.refusal(), Some(Refusal::NotEmpty));
    client.remove(&path("dir"), true, SOON).await.expect("removed");
    let gone = client.stat(&path("dir/file"), false, SOON).await.expect_err("gone");
    assert_eq!(gone.refusal(), Some(Refusal::NotFound));
}
