//! Watches: every change is told once, in order, with the user's rights, and who misses one is told so.

use rekindle::agent::{FileEvent, FileEventKind, Refusal, UploadOptions, Watcher};
use rekindle_test_support::wait::until_answer;

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, path};

use FileEventKind::{Changed, Created, Removed, Renamed, Written};

async fn watch(agent: &Agent, name: &str, recursive: bool) -> Watcher {
    agent.client.watch(&path(name), recursive, SOON).await.expect("watched")
}

async fn refused(agent: &Agent, name: &str) -> Refusal {
    let error = agent.client.watch(&path(name), false, SOON).await.expect_err("it cannot be watched");
    error.refusal().unwrap_or_else(|| panic!("{error:?}"))
}

async fn taken(watcher: &mut Watcher) -> Vec<(String, FileEventKind)> {
    let events = watcher.take(SOON).await.expect("changes");
    let shown = |event: FileEvent| (String::from_utf8_lossy(event.path.as_bytes()).into_owned(), event.kind);
    events.into_iter().map(shown).collect()
}

fn all(events: &[(&str, FileEventKind)]) -> Vec<(String, FileEventKind)> {
    events.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
}

#[tokio::test]
async fn every_change_before_the_question_is_in_the_answer_and_told_once() {
    let agent = agent!();
    agent.shell("mkdir -p dir/below; echo x > dir/old").await;
    let mut watcher = watch(&agent, "dir", false).await;
    assert_eq!(taken(&mut watcher).await, []);
    agent.shell("cd dir; echo y > new; chmod 600 new; mv new moved; rm old; echo z > below/deep").await;
    let right = all(&[
        ("new", Created),
        ("new", Written),
        ("new", Changed),
        ("new", Renamed),
        ("moved", Created),
        ("old", Removed),
    ]);
    assert_eq!(taken(&mut watcher).await, right);
    assert_eq!(taken(&mut watcher).await, [], "nothing is told twice");
    // Of an upload nobody sees the unfinished file, but all that was done to it.
    agent
        .client
        .upload_bytes(&path("dir/up"), UploadOptions::default(), b"content", PATIENCE)
        .await
        .expect("uploaded");
    assert_eq!(taken(&mut watcher).await, all(&[("up", Created), ("up", Written), ("up", Changed)]));
}

#[tokio::test]
async fn a_change_is_told_as_it_happens() {
    let agent = agent!();
    let mut watcher = watch(&agent, ".", false).await;
    let waiting = tokio::spawn(async move { watcher.next().await });
    agent.shell("mkdir made").await;
    let events = tokio::time::timeout(SOON, waiting).await.expect("in time").expect("told").expect("changes");
    assert_eq!((events[0].path.as_bytes(), events[0].kind), (&b"made"[..], Created));
}

#[tokio::test]
async fn below_a_directory_what_is_made_later_is_watched_too() {
    let agent = agent!();
    agent.shell("mkdir -p dir/a/b outside; ln -s ../outside dir/link").await;
    let mut watcher = watch(&agent, "dir", true).await;
    agent.shell("echo x > dir/a/b/file; echo x > outside/unseen").await;
    assert_eq!(taken(&mut watcher).await, all(&[("a/b/file", Created), ("a/b/file", Written)]));
    agent.shell("mkdir -p dir/c/d; echo x > dir/c/d/file").await;
    let told = taken(&mut watcher).await;
    for made in ["c", "c/d", "c/d/file"] {
        let times = told.iter().filter(|event| **event == (made.to_owned(), Created)).count();
        assert_eq!(times, 1, "{made}: {told:?}");
    }
    agent.shell("echo more >> dir/c/d/file").await;
    assert_eq!(taken(&mut watcher).await, all(&[("c/d/file", Written)]));
    // Under its new name, and no longer when it is moved away.
    agent.shell("mv dir/c dir/e; echo more >> dir/e/d/file").await;
    let told = taken(&mut watcher).await;
    assert!(
        told.contains(&("c".to_owned(), Renamed)) && told.contains(&("e".to_owned(), Created)),
        "{told:?}"
    );
    agent.shell("echo more >> dir/e/d/file").await;
    assert_eq!(taken(&mut watcher).await, all(&[("e/d/file", Written)]));
    agent.shell("mv dir/e outside/e").await;
    assert_eq!(taken(&mut watcher).await, all(&[("e", Renamed)]));
    agent.shell("echo more >> outside/e/d/file").await;
    assert_eq!(taken(&mut watcher).await, [], "what is outside is nobody's business here");
}

#[tokio::test]
async fn only_a_directory_that_the_user_may_read_is_watched_until_it_is_gone() {
    let agent = agent!();
    agent.shell("mkdir dir closed; chmod 000 closed; : > file; ln -s dir link").await;
    assert_eq!(refused(&agent, "none").await, Refusal::NotFound);
    assert_eq!(refused(&agent, "file").await, Refusal::NotADirectory);
    assert_eq!(refused(&agent, "closed").await, Refusal::PermissionDenied);
    assert_eq!(refused(&agent, "/proc/self/cwd").await, Refusal::InvalidArgument);
    let mut through_link = watch(&agent, "link", false).await;
    let mut watcher = watch(&agent, "dir", true).await;
    agent.shell("rmdir dir").await;
    for watcher in [&mut watcher, &mut through_link] {
        let error =
            tokio::time::timeout(SOON, watcher.next()).await.expect("in time").expect_err("it is gone");
        assert_eq!(error.refusal(), Some(Refusal::NotFound), "{error:?}");
    }
}

#[tokio::test]
async fn who_reads_too_slowly_is_told_and_nobody_else_is_held_up() {
    let agent = agent!();
    agent.shell("mkdir dir").await;
    let mut watcher = watch(&agent, "dir", false).await;
    // More than the kernel and the stream keep. The same change of the same file twice would count once.
    let many = "i=0; while [ $i -lt 50000 ]; do echo > dir/a; echo > dir/b; i=$((i+1)); done; echo done";
    assert_eq!(agent.shell(many).await, "done\n");
    let error = loop {
        match watcher.next().await {
            Ok(events) => assert!(!events.is_empty()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.refusal(), Some(Refusal::TooLarge), "{error:?}");
}

#[tokio::test]
async fn watches_are_so_many_and_their_places_come_back() {
    let agent = agent!();
    let mut watchers = Vec::new();
    for _ in 0..16 {
        watchers.push(watch(&agent, ".", false).await);
    }
    let full = agent.client.watch(&path("."), false, SOON).await.expect_err("one too many");
    assert!(matches!(full, rekindle::agent::AgentError::Busy), "{full:?}");
    drop(watchers);
    until_answer("a place", async || agent.client.watch(&path("."), false, SOON).await.ok()).await;
}
