//! Commands against a server in this process.

mod executions;
mod interpreter;
mod network;
mod server;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Parser as _;
use rekindle::service::SandboxId;
use rekindle_api::v1::program::Program;
use rekindle_api::v1::{OnTimeout, StartExecutionRequest, UploadFileStart};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use self::server::Server;
use super::transfer::Meter;
use super::{put, remote, resolve};
use crate::cli::args::{Arguments, Command};

/// Runs a command line against a server.
async fn run(server: &Server, words: &[&str]) -> anyhow::Result<u8> {
    let url = server.url();
    // After the command, which of some has two words.
    let (command, rest) = words.split_at(if words[0] == "context" { 2 } else { 1 });
    let words = [&["rekindle"][..], command, &["--server", &url], rest].concat();
    match Arguments::try_parse_from(words).expect("right words").command {
        Command::Remote(command) => remote(*command).await,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_beginning_of_an_id_is_enough_when_it_is_unique() {
    let server = Server::start();
    let mut client = server.client().await;
    assert_eq!(resolve::resolve(&mut client, "aa").await.expect("one"), "aa11");
    assert_eq!(resolve::resolve(&mut client, "ab33").await.expect("one"), "ab33");
    let error = resolve::resolve(&mut client, "ab").await.expect_err("two").to_string();
    assert!(error.starts_with("2 sandboxes begin with ab: ab22, ab33\n"), "{error}");
    assert!(resolve::resolve(&mut client, "").await.is_err());
    assert!(resolve::resolve(&mut client, "zz").await.is_err());
}

#[tokio::test]
async fn a_whole_id_is_not_looked_up_before_what_it_is_for() {
    let server = Server::start();
    // The server's list does not have it.
    let id = SandboxId::random().expect("an id").to_string();
    assert_eq!(run(&server, &["exec", &id, "--sh", "true"]).await.expect("it ran"), 3);
    assert_eq!(server.state.lock().expect("state").executed[0].sandbox, id);
    assert!(run(&server, &["exec", &id[1..], "--sh", "true"]).await.is_err(), "a part of it is");
}

#[tokio::test]
async fn a_refusal_is_the_servers_words_and_hint() {
    let server = Server::start();
    let error = run(&server, &["create"]).await.expect_err("it is full");
    assert_eq!(error.to_string(), "no room\nhint: ask nicely");
}

#[tokio::test]
async fn what_happens_at_the_end_of_its_time_can_be_said() {
    let server = Server::start();
    assert!(run(&server, &["create", "--on-timeout", "pause"]).await.is_err(), "it is full");
    let words = ["timeout", "aa", "--on-timeout", "pause-until-used", "--json"];
    assert_eq!(run(&server, &words).await.expect("set"), 0);
    assert_eq!(run(&server, &["timeout", "aa", "--ttl", "10m"]).await.expect("set"), 0);
    let state = server.state.lock().expect("state");
    assert_eq!(state.on_timeouts, [OnTimeout::Pause, OnTimeout::PauseUntilUsed, OnTimeout::Unspecified]);
}

#[tokio::test]
async fn an_execution_passes_its_exit_code_on() {
    let server = Server::start();
    let code =
        run(&server, &["exec", "aa", "--python", "1", "--plain", "--key", "k", "--timeout", "2"]).await;
    assert_eq!(code.expect("it ran"), 3);
    let state = server.state.lock().expect("state");
    let request = &state.executed[0];
    assert_eq!(
        (request.sandbox.as_str(), request.timeout),
        ("aa11", Some(rekindle_api::Duration { seconds: 2, nanos: 0 }))
    );
    assert_eq!(request.idempotency_key, "k");
    let program = request.program.clone().and_then(|program| program.program);
    assert!(matches!(program, Some(Program::Code(code)) if code.plain_interpreter && code.source == "1"));
}

#[tokio::test]
async fn an_execution_can_have_a_clock_of_its_own() {
    let server = Server::start();
    let words =
        ["exec", "aa", "--now", "2024-01-02T03:04:05.5Z", "--timezone", "Europe/Berlin", "--sh", "date"];
    assert_eq!(run(&server, &words).await.expect("it ran"), 3);
    assert_eq!(run(&server, &["exec", "aa", "--sh", "date"]).await.expect("it ran"), 3);
    let state = server.state.lock().expect("state");
    let now = Some(rekindle_api::Timestamp { seconds: 1_704_164_645, nanos: 500_000_000 });
    assert_eq!((state.executed[0].now, state.executed[0].timezone.as_str()), (now, "Europe/Berlin"));
    assert_eq!((state.executed[1].now, state.executed[1].timezone.as_str()), (None, ""));
}

#[tokio::test]
async fn a_live_execution_passes_its_exit_code_on() {
    let server = Server::start();
    assert_eq!(run(&server, &["exec", "--stream", "aa", "--", "x", "-y"]).await.expect("it ran"), 7);
    assert_eq!(run(&server, &["exec", "-t", "aa", "--sh", "x"]).await.expect("it ran"), 7);
    let state = server.state.lock().expect("state");
    assert_eq!(state.started[0].terminal, None);
    assert!(state.started[1].terminal.is_some_and(|size| size.rows > 0 && size.columns > 0));
    let request = state.started[0].request.clone().expect("a request");
    let Some(Program::Command(command)) = request.program.and_then(|program| program.program) else {
        panic!("another program");
    };
    assert_eq!(command.argv, ["x", "-y"]);
}

#[tokio::test]
async fn a_detached_program_is_left_running_and_attach_ends_as_it_does() {
    let server = Server::start();
    let words = ["exec", "--detach", "-it", "aa", "--timeout", "2h", "--sh", "x"];
    assert_eq!(run(&server, &words).await.expect("it runs"), 0, "its end is not waited for");
    assert_eq!(run(&server, &["exec", "-d", "aa", "--", "y"]).await.expect("it runs"), 0);
    for words in [&["attach", "aa", "ex-1"][..], &["attach", "--json", "aa", "ex-1"]] {
        assert_eq!(run(&server, words).await.expect("it ended"), 5, "{words:?}");
        assert!(run(&server, &[&words[..words.len() - 1], &["ex-2"]].concat()).await.is_err());
    }
    let error = run(&server, &["attach", "-i", "aa", "ex-1"]).await.expect_err("it takes no input");
    assert!(error.to_string().starts_with("ex-1 takes no input\nhint: "), "{error}");
    assert_eq!(run(&server, &["jobs", "aa"]).await.expect("shown"), 0);
    // One that is not there does not keep the other alive.
    assert_eq!(run(&server, &["kill", "aa", "ex-9", "ex-1"]).await.expect("one was"), 125);
    assert_eq!(run(&server, &["kill", "-s", "KILL", "--everyone", "aa", "ex-1"]).await.expect("sent"), 0);
    let state = server.state.lock().expect("state");
    let sent = |execution: &str, signal, everyone| (execution.to_owned(), signal, everyone);
    assert_eq!(state.signals, [sent("ex-9", 15, false), sent("ex-1", 15, false), sent("ex-1", 9, true)]);
    let [first, second] = &state.detached[..] else { panic!("{:?}", state.detached) };
    assert!(first.live_stdin && first.terminal.is_some());
    assert!(!second.live_stdin && second.terminal.is_none());
    let timeout = |start: &StartExecutionRequest| start.request.as_ref().and_then(|request| request.timeout);
    assert_eq!(timeout(first), Some(rekindle_api::Duration { seconds: 7_200, nanos: 0 }));
    assert_eq!(timeout(second), None, "as long as the sandbox");
}

#[tokio::test]
async fn files_go_in_and_come_out_the_same() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let content: Vec<u8> = (0..1_000_003_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &content).expect("written");
    std::fs::write(&to, "old").expect("written");
    let (from, to_text) = (from.display().to_string(), to.display().to_string());
    assert_eq!(run(&server, &["put", "aa", &from, "data"]).await.expect("it arrived"), 0);
    assert_eq!(run(&server, &["get", "aa", "data", &to_text]).await.expect("it arrived"), 0);
    assert!(std::fs::read(&to).expect("there") == content);
    assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 2, "nothing is left beside");
}

#[tokio::test]
async fn directories_are_made_files_moved_and_changes_shown() {
    let server = Server::start();
    let words = ["mkdir", "aa", "a/b", "--mode", "0750", "--no-clobber", "--user", "root", "--json"];
    assert_eq!(run(&server, &words).await.expect("made"), 0);
    assert_eq!(run(&server, &["mkdir", "aa", "c"]).await.expect("made"), 0);
    assert_eq!(run(&server, &["mkdir", "aa", "e", "--mode", "0"]).await.expect("made"), 0);
    assert_eq!(run(&server, &["mv", "aa", "a/b", "d", "--no-clobber"]).await.expect("moved"), 0);
    for words in [&["watch", "aa", "a", "-r", "--json"][..], &["watch", "aa", "a"]] {
        let error = run(&server, words).await.expect_err("the watch ends");
        assert!(error.to_string().starts_with("the server ended the watch\nhint: "), "{error}");
    }
    let state = server.state.lock().expect("state");
    let made: Vec<_> = state.made.iter().map(|made| (&made.path[..], made.mode, &made.user[..])).collect();
    assert_eq!(made, [(&b"a/b"[..], Some(0o750), "root"), (&b"c"[..], None, ""), (&b"e"[..], Some(0), "")]);
    assert!(state.made[0].must_not_exist && !state.made[1].must_not_exist);
    let [moved] = &state.moved[..] else { panic!("{:?}", state.moved) };
    assert_eq!((&moved.from[..], &moved.to[..], moved.must_not_exist), (&b"a/b"[..], &b"d"[..], true));
    let watched: Vec<_> = state.watched.iter().map(|watch| (watch.recursive, watch.describe)).collect();
    assert_eq!(watched, [(true, true), (false, false)]);
}

#[tokio::test]
async fn a_download_that_is_short_or_changed_leaves_what_was_there() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().join("to");
    std::fs::write(&to, "old").expect("written");
    for path in ["short", "changed"] {
        server.state.lock().expect("state").files.insert(path.into(), Bytes::from_static(b"content"));
    }
    for path in ["short", "changed", "missing"] {
        assert!(run(&server, &["get", "aa", path, &to.display().to_string()]).await.is_err(), "{path}");
        assert_eq!(std::fs::read(&to).expect("there"), b"old", "{path}");
    }
    assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 1, "nothing is left beside");
}

/// Fails after so many bytes.
struct Breaks(u64);

impl AsyncRead for Breaks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::Error::other("the disk broke")));
        }
        let n = buf.remaining().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        buf.put_slice(&vec![7; n]);
        self.0 -= n as u64;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_upload_that_cannot_be_read_to_its_end_is_never_complete() {
    let server = Server::start();
    let mut client = server.client().await;
    let file = UploadFileStart { path: Bytes::from_static(b"half"), ..UploadFileStart::default() };
    let sent = put::send(&mut client, file, Breaks(600_000), Meter::start("x", None)).await;
    assert_eq!(sent.expect_err("it broke").root_cause().to_string(), "the disk broke");
    drop(client);
    // A second upload over a connection of its own; by then the first has been given up or would be complete.
    let mut client = server.client().await;
    let file = UploadFileStart { path: Bytes::from_static(b"whole"), ..UploadFileStart::default() };
    put::send(&mut client, file, &b"abc"[..], Meter::start("x", None)).await.expect("it arrived");
    let state = server.state.lock().expect("state");
    assert!(state.files.contains_key(&b"whole"[..]) && !state.files.contains_key(&b"half"[..]));
}

#[tokio::test]
async fn a_refused_upload_says_why_before_it_is_sent() {
    let server = Server::start();
    let mut client = server.client().await;
    let file = UploadFileStart { path: Bytes::from_static(b"forbidden"), ..UploadFileStart::default() };
    let endless = tokio::io::repeat(1).take(1 << 40);
    let error = put::send(&mut client, file, endless, Meter::start("x", None)).await.expect_err("refused");
    assert_eq!(error.to_string(), "not there\nhint: ask nicely");
}

#[tokio::test]
async fn one_sandbox_that_stays_does_not_keep_the_others() {
    let server = Server::start();
    assert_eq!(run(&server, &["rm", "--all"]).await.expect("most ended"), 125);
    let mut destroyed = server.state.lock().expect("state").destroyed.clone();
    destroyed.sort();
    assert_eq!(destroyed, ["aa11", "ab33"]);
    assert_eq!(run(&server, &["rm", "ab33", "zz"]).await.expect("one ended"), 125);
    assert_eq!(run(&server, &["rm", "aa"]).await.expect("ended"), 0);
}

#[tokio::test]
async fn who_may_not_see_the_host_still_sees_its_sandboxes() {
    let server = Server::start();
    assert_eq!(run(&server, &["top", "--once"]).await.expect("shown"), 0);
    let error = run(&server, &["status"]).await.expect_err("refused");
    assert_eq!(error.to_string(), "the scope admin is needed\nhint: ask nicely");
    for words in [&["ps", "--quiet"][..], &["inspect", "aa"], &["usage"]] {
        assert_eq!(run(&server, words).await.expect("shown"), 0, "{words:?}");
    }
}

#[tokio::test]
async fn the_templates_of_a_server_are_listed_by_the_same_command_as_ones_own() {
    let server = Server::start();
    let words = ["rekindle", "template", "ls", "--json", "--server", &server.url()];
    let Command::Template(command) = Arguments::try_parse_from(words).expect("right words").command else {
        panic!("another command");
    };
    assert_eq!(crate::cli::template::template(command).await.expect("shown"), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_says_how_to_start_one() {
    let words = ["rekindle", "ps", "--server", "unix:/nonexistent/s"];
    let Command::Remote(command) = Arguments::try_parse_from(words).expect("right words").command else {
        panic!("another command");
    };
    let error = remote(*command).await.expect_err("there is none").to_string();
    assert!(error.contains("rekindle serve"), "{error}");
}
