//! What is told of files beyond their size: owners, where links lead, metadata, whole trees; and files that are written
//! in place.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rekindle::agent::{
    FileInfo, FileKind, FileMetadata, GuestUser, Refusal, RestoreRequest, SandboxLimits, UploadOptions,
};
use rekindle_test_support::wait::until;

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, Setup, path, restore_request};

fn metadata(pairs: &[(&str, &str)]) -> FileMetadata {
    FileMetadata::new(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()))).expect("metadata")
}

fn in_place() -> UploadOptions {
    UploadOptions { in_place: true, ..UploadOptions::default() }
}

async fn upload(agent: &Agent, name: &str, options: UploadOptions, content: &[u8]) -> FileInfo {
    let uploaded = agent.client.upload_bytes(&path(name), options, content, PATIENCE).await;
    uploaded.unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

async fn stat(agent: &Agent, name: &str) -> FileInfo {
    agent.client.stat(&path(name), false, SOON).await.unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

#[tokio::test]
async fn owners_have_the_names_the_guest_has_for_them() {
    let agent = agent!();
    let user = agent.shell("id -un; id -gn").await;
    let mut names = user.lines().map(|name| Some(name.to_owned()));
    fs::write(agent.home.join("odd"), "").expect("written");
    std::os::unix::fs::chown(agent.home.join("odd"), Some(4_000_001), Some(4_000_002)).expect("given away");
    let info = upload(&agent, "file", UploadOptions::default(), b"x").await;
    assert_eq!((Some(info.owner), Some(info.group)), (names.next(), names.next()));
    let odd = stat(&agent, "odd").await;
    assert_eq!((odd.owner, odd.group, odd.uid), (None, None, 4_000_001));
    assert_eq!(stat(&agent, "/etc").await.owner.as_deref(), Some("root"));
}

#[tokio::test]
async fn a_link_is_told_as_it_is_written_with_what_it_leads_to() {
    let agent = agent!();
    agent.shell("mkdir dir; : > file; ln -s dir d; ln -s ../$(basename $PWD)/file f; ln -s f ff").await;
    agent.shell("ln -s nowhere n; ln -s loop loop; ln -s /dev/null o; ln -s /proc/self/exe magic").await;
    for (name, kind) in [
        ("d", Some(FileKind::Directory)),
        ("f", Some(FileKind::File)),
        ("ff", Some(FileKind::File)),
        ("n", None),
        ("loop", None),
        ("o", Some(FileKind::Other)),
        ("magic", None),
        ("dir", None),
    ] {
        assert_eq!(stat(&agent, name).await.link_kind, kind, "{name}");
    }
    assert_eq!(stat(&agent, "ff").await.link_target, Some(path("f")), "the first step, not the last");
    let listing = agent.client.list(&path("."), 0, SOON).await.expect("listed");
    let told = listing.entries.iter().find(|entry| entry.path == path("d")).expect("there");
    assert_eq!((told.kind, told.link_kind), (FileKind::Symlink, Some(FileKind::Directory)));
}

#[tokio::test]
async fn a_tree_is_listed_to_a_depth_with_each_directory_before_what_is_in_it() {
    let agent = agent!();
    agent.shell("mkdir -p a/b/c a-b closed; : > a/b/c/deep; : > a/x; : > a-b/y; : > z").await;
    agent.shell("ln -s a link; : > closed/hidden; chmod 0 closed").await;
    let list =
        async |depth, most| agent.client.list_tree(&path("."), depth, most, SOON).await.expect("listed");
    let names = |listing: &rekindle::agent::Listing| -> Vec<String> {
        listing.entries.iter().map(|entry| entry.path.to_string()).collect()
    };
    let one = ["a", "a-b", "closed", "link", "z"];
    assert_eq!(names(&list(0, 0).await), one);
    assert_eq!(names(&list(1, 0).await), one);
    let two = ["a", "a/b", "a/x", "a-b", "a-b/y", "closed", "link", "z"];
    assert_eq!(names(&list(2, 0).await), two);
    let all = list(u32::MAX, 0).await;
    let deep = ["a", "a/b", "a/b/c", "a/b/c/deep", "a/x", "a-b", "a-b/y", "closed", "link", "z"];
    assert_eq!((names(&all), all.truncated), (deep.map(String::from).to_vec(), false));
    let some = list(9, 6).await;
    assert_eq!((some.entries.len() <= 6, some.truncated), (true, true), "{:?}", names(&some));
    assert!(!list(9, 10).await.truncated, "exactly as many as there are");
    let error = agent.client.list_tree(&path("z"), 3, 0, SOON).await.expect_err("a file");
    assert_eq!(error.refusal(), Some(Refusal::NotADirectory));
}

#[tokio::test]
async fn a_tree_of_more_than_a_listing_holds_is_cut_and_says_so() {
    let agent = agent!();
    agent.shell("mkdir -p m/1 m/2; cd m/1; seq 6000 | xargs touch; cd ../2; seq 6000 | xargs touch").await;
    let listing = agent.client.list_tree(&path("m"), 2, 0, SOON).await.expect("listed");
    assert_eq!((listing.entries.len(), listing.truncated), (10_000, true));
    // Long paths fill the bytes before the count.
    let deep = vec!["d".repeat(250); 10].join("/");
    agent.shell(&format!("mkdir -p {deep}; cd {deep}; seq 2000 | xargs touch")).await;
    let listing = agent.client.list_tree(&path("."), 20, 0, SOON).await.expect("listed");
    assert!(listing.truncated && listing.entries.len() < 10_000, "{}", listing.entries.len());
}

#[tokio::test]
async fn metadata_comes_with_an_upload_and_is_replaced_by_the_next() {
    let agent = agent!();
    let noted = metadata(&[("author", "mish"), ("purpose", "größe 1")]);
    let with = |options: UploadOptions| UploadOptions { metadata: noted.clone(), ..options };
    let info = upload(&agent, "file", with(UploadOptions::default()), b"one").await;
    assert_eq!(info.metadata, noted);
    assert_eq!(stat(&agent, "file").await.metadata, noted);
    let listing = agent.client.list(&path("."), 0, SOON).await.expect("listed");
    assert_eq!(listing.entries[0].metadata, noted);
    // As programs see it.
    let read = "import os; print(os.getxattr('file', 'user.e2b.author').decode())";
    assert_eq!(agent.shell(&format!("python3 -c \"{read}\"")).await, "mish\n");
    let moved = agent.client.rename(&path("file"), &path("moved"), false, SOON).await.expect("moved");
    assert_eq!(moved.metadata, noted);
    for options in [UploadOptions::default(), in_place()] {
        upload(&agent, "moved", with(options.clone()), b"two").await;
        assert!(
            upload(&agent, "moved", options, b"three").await.metadata.is_empty(),
            "what was noted is gone"
        );
    }
    upload(&agent, "moved", with(in_place()), b"four").await;
    let other = UploadOptions { metadata: metadata(&[("author", "x")]), ..in_place() };
    assert_eq!(upload(&agent, "moved", other, b"five").await.metadata, metadata(&[("author", "x")]));
}

#[tokio::test]
async fn metadata_that_programs_write_is_told_where_it_obeys_the_rule() {
    let agent = agent!();
    let program = "import os\n\
        open('file', 'w')\n\
        s = lambda n, v: os.setxattr('file', b'user.e2b.' + n, v)\n\
        s(b'author', b'mish'); s(b'bad name', b'x'); s(b'odd', b'\\xff'); s(b'bell', b'\\x07')\n\
        os.setxattr('file', 'user.other', b'x'); os.setxattr('.', 'user.e2b.dir', b'yes')\n";
    agent.shell(&format!("python3 -c \"{program}\"")).await;
    assert_eq!(stat(&agent, "file").await.metadata, metadata(&[("author", "mish")]));
    assert_eq!(stat(&agent, ".").await.metadata, metadata(&[("dir", "yes")]));
    // More than is told: the first by name.
    let many =
        "import os\nopen('many', 'w')\nfor n in range(40): os.setxattr('many', f'user.e2b.{n:02}', b'')\n";
    agent.shell(&format!("python3 -c \"{many}\"")).await;
    let told = stat(&agent, "many").await.metadata;
    assert_eq!((told.pairs().len(), told.pairs().keys().next_back().map(String::as_str)), (32, Some("31")));
    // What the user may not read is not told.
    agent.shell("chmod 0 file").await;
    assert!(stat(&agent, "file").await.metadata.is_empty());
}

#[tokio::test]
async fn metadata_is_kept_by_a_move_to_another_file_system() {
    let other = "mkdir \"$HOME/other\" && mount -t tmpfs -o size=8m,mode=777 none \"$HOME/other\"";
    let agent = agent!(Setup { unshare: vec!["--mount"], before: other, ..Setup::default() });
    let noted = metadata(&[("stage", "moved")]);
    let options = UploadOptions { metadata: noted.clone(), ..UploadOptions::default() };
    upload(&agent, "file", options.clone(), b"x").await;
    let there = agent.client.upload_bytes(&path("other/try"), options, b"x", PATIENCE).await;
    let moved = agent.client.rename(&path("file"), &path("other/file"), false, SOON).await.expect("moved");
    match there {
        Ok(_) => assert_eq!(moved.metadata, noted),
        // Kernels before 6.6 keep none in tmpfs: an upload with metadata is refused, a move goes on without.
        Err(error) => {
            assert_eq!(error.refusal(), Some(Refusal::InvalidArgument), "{error:?}");
            assert!(moved.metadata.is_empty());
        }
    }
}

#[tokio::test]
async fn a_file_written_in_place_stays_the_file_it_was() {
    let agent = agent!();
    agent.shell("printf 'something longer' > file; chmod 751 file; ln file hard; ln -s file link").await;
    let before = fs::metadata(agent.home.join("file")).expect("a file");
    let info = upload(&agent, "link", in_place(), b"new").await;
    assert_eq!((info.kind, info.size, info.mode), (FileKind::File, 3, 0o751));
    let after = fs::metadata(agent.home.join("file")).expect("a file");
    assert_eq!(
        (after.ino(), after.uid(), after.permissions().mode()),
        (before.ino(), before.uid(), 0o100_751)
    );
    assert_eq!(agent.shell("cat file hard; readlink link").await, "newnewfile\n");
    // Not there: made as usual, also where a link leads.
    let made = upload(&agent, "a/b", UploadOptions { mode: 0o600, ..in_place() }, b"x").await;
    assert_eq!((made.mode, made.uid), (0o600, agent.uid));
    symlink("far", agent.home.join("dangling")).expect("a link");
    upload(&agent, "dangling", in_place(), b"through").await;
    assert_eq!(agent.shell("cat far; readlink dangling; ls -A").await.lines().last(), Some("link"));
    let mode = fs::metadata(agent.home.join("far")).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    // Without it a link is replaced.
    upload(&agent, "link", UploadOptions::default(), b"own").await;
    assert_eq!(agent.shell("cat file link").await, "newown");
}

#[tokio::test]
async fn what_is_no_file_or_not_the_users_is_not_written_in_place() {
    let agent = agent!();
    agent.shell("mkdir dir; mkfifo pipe; : > closed; chmod 400 closed").await;
    let refused = async |name: &str| {
        let error = agent.client.upload_bytes(&path(name), in_place(), b"x", PATIENCE).await;
        error.expect_err(name).refusal().expect("a refusal")
    };
    assert_eq!(refused("dir").await, Refusal::IsADirectory);
    assert_eq!(refused("pipe").await, Refusal::InvalidArgument);
    assert_eq!(refused("closed").await, Refusal::PermissionDenied);
    assert_eq!(refused("/etc/passwd").await, Refusal::PermissionDenied);
    assert_eq!(refused("/proc/self/fd/0").await, Refusal::InvalidArgument, "no magic links");
    let new = UploadOptions { must_not_exist: true, ..in_place() };
    let error =
        agent.client.upload_bytes(&path("closed"), new, b"x", PATIENCE).await.expect_err("it is there");
    assert_eq!(error.refusal(), Some(Refusal::AlreadyExists));
}

#[tokio::test]
async fn an_upload_in_place_that_breaks_off_is_never_done_and_leaves_what_had_come() {
    let agent = agent!();
    agent.shell("printf 'before, and longer' > file").await;
    let (mut sender, source) = tokio::io::duplex(1024);
    let (client, target) = (agent.client.clone(), path("file"));
    let options = UploadOptions { size: Some(4 << 20), ..in_place() };
    let uploading = tokio::spawn(async move { client.upload(&target, options, source, PATIENCE).await });
    tokio::io::AsyncWriteExt::write_all(&mut sender, b"half").await.expect("taken");
    let file = agent.home.join("file");
    until("the beginning is written", || fs::read(&file).is_ok_and(|content| content == b"half")).await;
    uploading.abort();
    assert!(uploading.await.expect_err("never answered").is_cancelled());
    assert_eq!(agent.shell("cat file; ls -A").await, "halffile\n", "no more, no less, nothing beside it");
}

#[tokio::test]
async fn an_upload_in_place_that_cannot_fit_costs_no_content() {
    let before = "mount -t tmpfs -o size=4m,mode=777 none \"$HOME\"";
    let limits = Some(SandboxLimits { upload_bytes: 20 << 20, ..SandboxLimits::default() });
    let restore = RestoreRequest { limits, ..restore_request() };
    let agent = agent!(Setup { unshare: vec!["--mount"], before, restore, ..Setup::default() });
    agent.shell("printf before > file; head -c 3M /dev/zero > large; truncate -s 8M sparse").await;
    let refused = async |name: &str, size| {
        let options = UploadOptions { size: Some(size), ..in_place() };
        let error = agent.client.upload(&path(name), options, &b"new"[..], PATIENCE).await;
        error.expect_err("no room").refusal()
    };
    assert_eq!(refused("file", 2 << 20).await, Some(Refusal::NoSpace));
    assert_eq!(refused("file", 21 << 20).await, Some(Refusal::TooLarge));
    assert_eq!(refused("sparse", 2 << 20).await, Some(Refusal::NoSpace), "its length is no room");
    assert_eq!(agent.shell("cat file; stat -c %s sparse").await, "before8388608\n");
    // What it takes the place of makes room.
    assert_eq!(upload(&agent, "large", in_place(), &vec![1; 3 << 20]).await.size, 3 << 20);
}

#[tokio::test]
async fn root_has_rights_over_files_that_the_user_has_not() {
    let agent = agent!();
    agent.shell("mkdir mine; : > mine/file; chmod 0 mine/file").await;
    let root = agent.client.as_user(GuestUser::Root);
    let target = agent.home.join("mine/owned");
    let owned = path(target.to_str().expect("a plain path"));
    let info =
        root.upload_bytes(&owned, UploadOptions::default(), b"root's", PATIENCE).await.expect("written");
    assert_eq!((info.uid, info.owner.as_deref()), (0, Some("root")));
    // The next one on the same threads has the user's rights again.
    for _ in 0..20 {
        let error =
            agent.client.upload_bytes(&owned, in_place(), b"x", PATIENCE).await.expect_err("not its own");
        assert_eq!(error.refusal(), Some(Refusal::PermissionDenied));
    }
    let shown = root.stat(&path("."), false, SOON).await.expect("root's home");
    assert_eq!(shown.uid, 0);
    root.remove(&owned, false, SOON).await.expect("removed");
}
