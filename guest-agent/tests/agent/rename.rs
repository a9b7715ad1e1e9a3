//! Renames: within a file system in one step, to another one whole or not at all, and never with more rights than the
//! user has.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rekindle::agent::{AgentError, FileKind, Refusal};
use rekindle_test_support::wait::until;

use crate::agent;
use crate::harness::{Agent, SOON, Setup, path};

/// Another file system of 8 MiB in the user's home.
const OTHER: &str = "mkdir \"$HOME/other\" && mount -t tmpfs -o size=8m,mode=777 none \"$HOME/other\"";

fn with_another_file_system() -> Setup {
    Setup { unshare: vec!["--mount"], before: OTHER, ..Setup::default() }
}

async fn rename(agent: &Agent, from: &str, to: &str) -> Result<rekindle::agent::FileInfo, AgentError> {
    agent.client.rename(&path(from), &path(to), false, SOON).await
}

async fn refused(agent: &Agent, from: &str, to: &str) -> Refusal {
    let error = rename(agent, from, to).await.expect_err("it cannot be moved");
    error.refusal().unwrap_or_else(|| panic!("{error:?}"))
}

#[tokio::test]
async fn a_file_and_a_directory_get_another_name_and_missing_parents() {
    let agent = agent!();
    agent.shell("echo x > file; mkdir dir; echo y > dir/inside; ln -s nowhere link").await;
    let before = fs::metadata(agent.home.join("file")).expect("a file").ino();
    let info = rename(&agent, "file", "a/b/moved").await.expect("moved");
    assert_eq!((info.kind, info.size, info.uid), (FileKind::File, 2, agent.uid));
    assert_eq!(info.path, path("a/b/moved"));
    let moved = fs::metadata(agent.home.join("a/b/moved")).expect("there");
    assert_eq!(moved.ino(), before, "the same file, not a copy");
    assert_eq!(fs::metadata(agent.home.join("a/b")).expect("made").uid(), agent.uid);
    rename(&agent, "dir", "a/dir").await.expect("moved");
    let info = rename(&agent, "link", "a/link").await.expect("a link is moved itself");
    assert_eq!((info.kind, info.link_target), (FileKind::Symlink, Some(path("nowhere"))));
    assert_eq!(agent.shell("ls -A; cat a/dir/inside; readlink a/link").await, "a\ny\nnowhere\n");
}

#[tokio::test]
async fn what_is_at_the_new_name_is_replaced_or_kept_as_asked() {
    let agent = agent!();
    agent.shell("echo new > file; echo old > there; mkdir dir empty full; : > full/x").await;
    let error = agent.client.rename(&path("file"), &path("there"), true, SOON).await;
    assert_eq!(error.expect_err("it exists").refusal(), Some(Refusal::AlreadyExists));
    assert_eq!(agent.shell("cat there file").await, "old\nnew\n");
    rename(&agent, "file", "there").await.expect("replaced");
    assert_eq!(agent.shell("cat there; ls").await, "new\ndir\nempty\nfull\nthere\n");
    assert_eq!(refused(&agent, "there", "dir").await, Refusal::IsADirectory);
    assert_eq!(refused(&agent, "dir", "there").await, Refusal::NotADirectory);
    assert_eq!(refused(&agent, "dir", "full").await, Refusal::NotEmpty);
    assert_eq!(refused(&agent, "dir", "dir/inside").await, Refusal::InvalidArgument);
    rename(&agent, "full", "empty").await.expect("an empty directory is replaced");
    assert_eq!(agent.shell("ls . empty").await, ".:\ndir\nempty\nthere\n\nempty:\nx\n");
    assert_eq!(refused(&agent, "nothing", "made/for/nothing").await, Refusal::NotFound);
    assert!(!agent.home.join("made").exists(), "no directories for what is not there");
}

#[tokio::test]
async fn what_the_user_may_not_move_stays() {
    let agent = agent!(with_another_file_system());
    let outside = agent.home.join("../roots");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("file"), "root's").expect("a file");
    fs::create_dir(outside.join("sticky")).expect("a directory");
    fs::set_permissions(outside.join("sticky"), fs::Permissions::from_mode(0o1777)).expect("open to all");
    fs::write(outside.join("sticky/file"), "root's").expect("a file");
    agent.shell("echo mine > mine").await;
    for to in ["here", "other/there"] {
        assert_eq!(refused(&agent, "../roots/file", to).await, Refusal::PermissionDenied, "{to}");
        assert_eq!(refused(&agent, "../roots/sticky/file", to).await, Refusal::PermissionDenied, "{to}");
    }
    assert_eq!(refused(&agent, "mine", "../roots/file").await, Refusal::PermissionDenied);
    assert_eq!(fs::read_to_string(outside.join("file")).expect("untouched"), "root's");
    assert_eq!(agent.shell("ls -A . other").await, ".:\nmine\nother\n\nother:\n", "no copy is left");
}

#[tokio::test]
async fn a_move_to_another_file_system_brings_content_permissions_and_times() {
    let agent = agent!(with_another_file_system());
    agent
        .shell(
            "mkdir -p t/a/b; printf %s one > t/a/f; truncate -s 1000000 t/sparse; printf end >> t/sparse; \
         ln -s ../f t/a/link; chmod 640 t/a/f; chmod 2750 t/a; chmod 500 t/a/b; touch -d @1000000000 t/a/f t",
        )
        .await;
    let sum = agent.shell("cd t; sha256sum sparse a/f; stat -c '%n %Y' a/f .").await;
    let info = rename(&agent, "t", "other/x/t").await.expect("moved");
    assert_eq!((info.kind, info.modified_nanos), (FileKind::Directory, 1_000_000_000 * 1_000_000_000));
    assert_eq!(agent.shell("cd other/x/t; sha256sum sparse a/f; stat -c '%n %Y' a/f .").await, sum);
    assert_eq!(
        agent.shell("cd other/x/t; stat -c '%n %a' a a/b a/f; readlink a/link").await,
        "a 750\na/b 500\na/f 640\n../f\n"
    );
    let blocks: u64 = agent.shell("stat -c %b other/x/t/sparse").await.trim().parse().expect("a number");
    assert!(blocks * 512 < 500_000, "holes stay holes: {blocks} blocks");
    assert_eq!(agent.shell("ls -A . other/x").await, ".:\nother\n\nother/x:\nt\n");
    // Back, over something, and not over something.
    agent.shell("echo old > f").await;
    let error = agent.client.rename(&path("other/x/t/a/f"), &path("f"), true, SOON).await;
    assert_eq!(error.expect_err("it exists").refusal(), Some(Refusal::AlreadyExists));
    rename(&agent, "other/x/t/a/f", "f").await.expect("moved");
    assert_eq!(agent.shell("cat f; ls -A . other/x/t/a").await, "one.:\nf\nother\n\nother/x/t/a:\nb\nlink\n");
    assert_eq!(refused(&agent, "f", "other/x/t").await, Refusal::IsADirectory);
    assert_eq!(agent.shell("cat f; ls -A other/x").await, "onet\n");
}

#[tokio::test]
async fn what_cannot_be_moved_whole_is_not_moved_at_all() {
    let agent = agent!(with_another_file_system());
    agent
        .shell("mkdir big pipes; head -c 9000000 /dev/urandom > big/file; : > pipes/a; mkfifo pipes/p")
        .await;
    assert_eq!(refused(&agent, "big", "other/big").await, Refusal::NoSpace);
    assert_eq!(refused(&agent, "pipes", "other/pipes").await, Refusal::InvalidArgument);
    assert_eq!(refused(&agent, "../home", "other/everything").await, Refusal::PermissionDenied);
    assert_eq!(agent.shell("ls -A other big pipes").await, "big:\nfile\n\nother:\n\npipes:\na\np\n");
}

#[tokio::test]
async fn a_move_that_is_given_up_leaves_no_half_copy() {
    let agent = agent!(with_another_file_system());
    // A file without an end: it is read until somebody stops it.
    agent.shell("truncate -s 1P endless 2>/dev/null || truncate -s 8T endless").await;
    let copies = || fs::read_dir(format!("/proc/{}/root{}/other", agent.pid(), agent.home.display()));
    let names = || copies().expect("the other file system").count();
    let (from, to) = (path("endless"), path("other/endless"));
    let moving = agent.client.rename(&from, &to, false, SOON);
    tokio::select! {
        moved = moving => panic!("it has no end: {moved:?}"),
        () = until("a copy is under way", || names() == 1) => {}
    }
    until("the copy is gone", || names() == 0).await;
    assert_eq!(agent.shell("ls").await, "endless\nother\n");
}
