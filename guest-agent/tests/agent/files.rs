//! Files: any bytes, any name, whole or not at all, and never with more rights than the user has.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::pin::Pin;
use std::task::{Context, Poll};

use rekindle::agent::{
    AgentError, FileKind, MkdirOptions, Refusal, RestoreRequest, SandboxLimits, UploadOptions,
};
use rekindle_test_support::wait::until;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, Setup, Transport, path, restore_request};

const MIB: u64 = 1 << 20;
/// How much the agent may grow, whatever the size of a file. A host may send 8 MiB ahead, once its window has grown:
/// they are all here when the thread that writes has not had its turn for a while.
const GROWTH_KIB: u64 = (8 + 4) * 1024;

const PARENTS: MkdirOptions = MkdirOptions { mode: 0, parents: true, must_not_exist: false };

async fn upload(agent: &Agent, name: &[u8], content: &[u8]) -> rekindle::agent::FileInfo {
    let uploaded = agent.client.upload_bytes(&path(name), UploadOptions::default(), content, PATIENCE).await;
    uploaded.unwrap_or_else(|error| panic!("{}: {error:?}", String::from_utf8_lossy(name)))
}

async fn download(agent: &Agent, name: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let downloaded = agent.client.download(&path(name), 1 << 30, &mut content, PATIENCE).await;
    downloaded.unwrap_or_else(|error| panic!("{}: {error:?}", String::from_utf8_lossy(name)));
    content
}

async fn refused(agent: &Agent, name: &str) -> Refusal {
    let error = agent.client.download(&path(name), 1 << 30, tokio::io::sink(), PATIENCE).await;
    error.expect_err("it cannot be read").refusal().expect("a refusal")
}

/// Names in the home that are not hidden from a plain listing of the host.
fn names(agent: &Agent) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(&agent.home).expect("the home");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().as_bytes().to_vec()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn every_byte_value_and_every_odd_size_survives_both_ways() {
    let agent = agent!();
    let all: Vec<u8> = (0..=255).collect();
    for size in [0usize, 1, 255, 256, 65_535, 65_536, 65_537, 262_144, 262_145, 1_000_003] {
        let content: Vec<u8> = all.iter().copied().cycle().take(size).collect();
        let info = upload(&agent, b"file", &content).await;
        assert_eq!(
            (info.size, info.kind, info.mode, info.uid),
            (size as u64, FileKind::File, 0o644, agent.uid)
        );
        assert!(fs::read(agent.home.join("file")).expect("it is there") == content, "{size} bytes up");
        assert!(download(&agent, b"file").await == content, "{size} bytes down");
    }
    assert_eq!(names(&agent), [b"file".to_vec()], "nothing else is left");
}

/// Bytes nobody can guess, the same ones for the same seed.
struct Noise {
    hash: Sha256,
    left: u64,
    block: Vec<u8>,
}

impl Noise {
    fn new(size: u64) -> Self {
        let mut block = vec![0; 1 << 16];
        getrandom::fill(&mut block).expect("random bytes");
        Self { hash: Sha256::new(), left: size, block }
    }
}

impl AsyncRead for Noise {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        // Another block each time, by a byte that moves through it.
        let at = (self.left % 65_521) as usize;
        self.block[at] = self.block[at].wrapping_add(41);
        let n = self.left.min(out.remaining() as u64).min(self.block.len() as u64) as usize;
        out.put_slice(&self.block[..n]);
        let Self { hash, block, .. } = &mut *self;
        hash.update(&block[..n]);
        self.left -= n as u64;
        Poll::Ready(Ok(()))
    }
}

/// Hashes what it is given.
#[derive(Default)]
struct Hashing(Sha256);

impl AsyncWrite for Hashing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.update(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_quarter_of_a_gibibyte_of_noise_survives_both_ways_in_flat_memory() {
    let agent = agent!();
    upload(&agent, b"warm", &vec![0; 1 << 20]).await;
    download(&agent, b"warm").await;
    let before = agent.status_kib("VmRSS:");
    agent.reset_peak();

    let mut source = Noise::new(256 * MIB);
    let info = agent.client.upload(&path("big"), UploadOptions::default(), &mut source, PATIENCE).await;
    let info = info.expect("uploaded");
    let expected: [u8; 32] = source.hash.finalize().into();
    assert_eq!((info.size, info.sha256.expect("a checksum").0), (256 * MIB, expected));

    let mut sink = Hashing::default();
    let downloaded = agent.client.download(&path("big"), 256 * MIB, &mut sink, PATIENCE).await;
    let downloaded = downloaded.expect("downloaded");
    assert_eq!((downloaded.size, downloaded.sha256.0), (256 * MIB, expected));
    let received: [u8; 32] = sink.0.finalize().into();
    assert_eq!(received, expected);

    let growth = agent.status_kib("VmHWM:").saturating_sub(before);
    println!("before {before} KiB, grew by {growth} KiB");
    assert!(growth <= GROWTH_KIB, "the agent grew by {growth} KiB");
}

#[tokio::test]
async fn odd_names_are_names_like_any_other() {
    let agent = agent!();
    let odd: [&[u8]; 9] = [
        b"with space",
        b" ",
        b"new\nline",
        b"\xff\xfe not text",
        b"-rf",
        b"quote'\"`$(x)",
        "ünïcödé 😀".as_bytes(),
        b"...",
        b"\x01\x7f",
    ];
    for name in odd {
        let content = [b"content of ", name].concat();
        upload(&agent, name, &content).await;
        assert_eq!(download(&agent, name).await, content);
        let info = agent.client.stat(&path(name), false, SOON).await.expect("it is there");
        assert_eq!((info.path.as_bytes(), info.size), (name, content.len() as u64));
    }
    let mut expected: Vec<Vec<u8>> = odd.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!(names(&agent), expected, "on the disk");
    let listing = agent.client.list(&path("."), 0, SOON).await.expect("a listing");
    let listed: Vec<Vec<u8>> = listing.entries.iter().map(|entry| entry.path.as_bytes().to_vec()).collect();
    assert_eq!(listed, expected, "in the listing, sorted");
    for name in odd {
        agent.client.remove(&path(name), false, SOON).await.expect("removed");
    }
    assert!(names(&agent).is_empty());
}

#[tokio::test]
async fn the_longest_name_is_fine_and_one_byte_more_is_a_clear_error() {
    let agent = agent!();
    let longest = vec![b'n'; 255];
    upload(&agent, &longest, b"x").await;
    assert_eq!(download(&agent, &longest).await, b"x");
    let too_long = path(vec![b'n'; 256]);
    let error = agent.client.upload_bytes(&too_long, UploadOptions::default(), b"x", PATIENCE).await;
    assert_eq!(error.expect_err("too long").refusal(), Some(Refusal::InvalidArgument));
    assert_eq!(names(&agent), [longest]);
}

#[tokio::test]
async fn parents_are_made_modes_are_kept_and_files_belong_to_the_user() {
    let agent = agent!();
    let options = UploadOptions { mode: 0o751, must_not_exist: false, ..UploadOptions::default() };
    let info =
        agent.client.upload_bytes(&path("a/b/c/file"), options, b"x", PATIENCE).await.expect("uploaded");
    assert_eq!((info.mode, info.uid), (0o751, agent.uid));
    let made = fs::metadata(agent.home.join("a/b")).expect("made");
    assert_eq!((made.uid(), made.mode() & 0o777), (agent.uid, 0o755));
    let set_uid = UploadOptions { mode: 0o6755, must_not_exist: false, ..UploadOptions::default() };
    let info = agent.client.upload_bytes(&path("su"), set_uid, b"x", PATIENCE).await.expect("uploaded");
    assert_eq!(info.mode & 0o6000, 0, "an upload never makes a set-uid file");
    let absolute = agent.home.join("absolute");
    upload(&agent, absolute.as_os_str().as_bytes(), b"y").await;
    assert_eq!(fs::read(absolute).expect("it is there"), b"y");
}

#[tokio::test]
async fn an_existing_file_is_replaced_whole_or_refused() {
    let agent = agent!();
    upload(&agent, b"file", b"old and longer").await;
    upload(&agent, b"file", b"new").await;
    assert_eq!(download(&agent, b"file").await, b"new");
    let careful = UploadOptions { mode: 0, must_not_exist: true, ..UploadOptions::default() };
    let error = agent.client.upload_bytes(&path("file"), careful.clone(), b"newer", PATIENCE).await;
    assert_eq!(error.expect_err("it exists").refusal(), Some(Refusal::AlreadyExists));
    assert_eq!(download(&agent, b"file").await, b"new");
    agent.client.upload_bytes(&path("other"), careful, b"first", PATIENCE).await.expect("it is new");
    agent.client.mkdir(&path("dir"), MkdirOptions::default(), SOON).await.expect("made");
    let error = agent.client.upload_bytes(&path("dir"), UploadOptions::default(), b"x", PATIENCE).await;
    assert_eq!(error.expect_err("a directory").refusal(), Some(Refusal::IsADirectory));
    let error =
        agent.client.upload_bytes(&path("file/below"), UploadOptions::default(), b"x", PATIENCE).await;
    assert_eq!(error.expect_err("a file").refusal(), Some(Refusal::NotADirectory));
    assert_eq!(names(&agent), [b"dir".to_vec(), b"file".to_vec(), b"other".to_vec()]);
}

#[tokio::test]
async fn an_announced_size_reserves_room_and_decides_nothing_about_the_content() {
    let agent = agent!();
    let content = vec![7; 2 << 20];
    for announced in [1, 2 << 20, 5 << 20] {
        let options = UploadOptions { size: Some(announced), ..UploadOptions::default() };
        let sent = agent.client.upload(&path("file"), options, content.as_slice(), PATIENCE).await;
        assert_eq!(sent.expect("uploaded").size, 2 << 20, "{announced}");
        assert!(download(&agent, b"file").await == content, "{announced}");
    }
    let endless = UploadOptions { size: Some(1 << 60), ..UploadOptions::default() };
    let error = agent.client.upload(&path("more"), endless, content.as_slice(), PATIENCE).await;
    assert_eq!(error.expect_err("beyond the limit").refusal(), Some(Refusal::TooLarge));
    assert_eq!(names(&agent), [b"file".to_vec()]);
}

/// Yields some bytes and then nothing, for ever.
struct Stuck(usize);

impl AsyncRead for Stuck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.0 == 0 {
            return Poll::Pending;
        }
        let n = self.0.min(out.remaining());
        out.put_slice(&vec![7; n]);
        self.0 -= n;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_transfer_that_is_cut_leaves_nothing_behind_and_the_old_file_alone() {
    let agent = agent!();
    upload(&agent, b"file", b"old").await;
    for size in [0usize, 1, 100_000, 3_000_000] {
        let client = agent.client.clone();
        let cut = tokio::spawn(async move {
            client.upload(&path("file"), UploadOptions::default(), Stuck(size), PATIENCE).await
        });
        until("the upload has begun", || names(&agent).len() == 2).await;
        cut.abort();
        until("the half file is gone", || names(&agent) == [b"file".to_vec()]).await;
        assert_eq!(fs::read(agent.home.join("file")).expect("still there"), b"old");
    }
    // The same with a download that nobody finishes.
    upload(&agent, b"big", &vec![1; 5_000_000]).await;
    let (sink, mut held) = tokio::io::duplex(10);
    let client = agent.client.clone();
    let cut = tokio::spawn(async move { client.download(&path("big"), 1 << 30, sink, PATIENCE).await });
    tokio::io::AsyncReadExt::read_u8(&mut held).await.expect("it has begun");
    cut.abort();
    agent.answers().await;
}

#[tokio::test]
async fn a_lost_connection_leaves_no_half_file_either() {
    let agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    let client = agent.client.clone();
    let cut = tokio::spawn(async move {
        client.upload(&path("file"), UploadOptions::default(), Stuck(1_000_000), PATIENCE).await
    });
    until("the upload has begun", || names(&agent).len() == 1).await;
    // A newer connection takes over, which ends the older one under its operations.
    let newer = rekindle::agent::AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
    let outcome = tokio::time::timeout(SOON, cut).await.expect("it ends").expect("no panic");
    assert!(matches!(outcome, Err(AgentError::Lost { .. })), "{outcome:?}");
    until("the half file is gone", || names(&agent).is_empty()).await;
    newer.ping(SOON).await.expect("the newer one works");
}

#[tokio::test]
async fn bytes_that_are_not_the_announced_ones_are_refused_and_not_kept() {
    use rekindle_protocol::checksum::Checksum;
    use rekindle_protocol::frame;
    use rekindle_protocol::wire::{self, request::Op, response::Reply, upload_part::Part};

    let agent = agent!(Setup { transport: Transport::Listen, ..Setup::default() });
    let opener = crate::bad_input::greeted(agent.dial().await).await;
    let wrong = [
        wire::TransferEnd { checksum: 0, size: 3 },
        wire::TransferEnd { checksum: Checksum::of(b"abc"), size: 4 },
        wire::TransferEnd::default(),
    ];
    for end in wrong {
        let mut stream = opener.open().await.expect("a stream");
        let request = wire::UploadRequest { path: "file".into(), ..Default::default() };
        frame::write(&mut stream, &wire::Request { op: Some(Op::Upload(request)) }).await.expect("sent");
        for part in [Part::Chunk(wire::Chunk { data: "abc".into() }), Part::End(end)] {
            frame::write(&mut stream, &wire::UploadPart { part: Some(part) }).await.expect("sent");
        }
        let answer: wire::Response = frame::read(&mut stream).await.expect("an answer").expect("no end");
        let Some(Reply::Error(error)) = answer.reply else { panic!("{answer:?}") };
        assert_eq!(error.code(), wire::ErrorCode::ChecksumMismatch);
        until("nothing is left", || names(&agent).is_empty()).await;
    }
}

#[tokio::test]
async fn a_file_beyond_the_sandboxs_limit_is_refused_and_not_kept() {
    let limits = Some(SandboxLimits { upload_bytes: 1_000_000, ..SandboxLimits::default() });
    let agent = agent!(Setup { restore: RestoreRequest { limits, ..restore_request() }, ..Setup::default() });
    upload(&agent, b"fits", &vec![0; 1_000_000]).await;
    for size in [1_000_001usize, 50_000_000] {
        let error = agent
            .client
            .upload_bytes(&path("more"), UploadOptions::default(), &vec![0; size], PATIENCE)
            .await;
        assert_eq!(error.expect_err("too large").refusal(), Some(Refusal::TooLarge));
    }
    until("only what fits is left", || names(&agent) == [b"fits".to_vec()]).await;
    let error = agent.client.download(&path("fits"), 999_999, tokio::io::sink(), PATIENCE).await;
    assert!(
        matches!(
            &error,
            Err(AgentError::TooLarge { .. } | AgentError::Refused { kind: Refusal::TooLarge, .. })
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_and_leaves_nothing() {
    let before = "mount -t tmpfs -o size=1m,mode=777 none \"$HOME\"";
    let agent = agent!(Setup { unshare: vec!["--mount"], before, ..Setup::default() });
    let error = agent
        .client
        .upload_bytes(&path("big"), UploadOptions::default(), &vec![1; 5_000_000], PATIENCE)
        .await;
    assert_eq!(error.expect_err("no room").refusal(), Some(Refusal::NoSpace));
    assert_eq!(agent.shell("ls -A").await, "");
    upload(&agent, b"small", b"x").await;
}

#[tokio::test]
async fn what_the_user_may_not_touch_is_refused() {
    // Root logs in with groups of its own, and none of them is the user's.
    let before = "set -- setpriv --groups 0 \"$@\"";
    let agent = agent!(Setup { before, ..Setup::default() });
    let secret = agent.home.join("../secret");
    fs::write(&secret, "for root alone").expect("written");
    let at = secret.to_str().expect("text");
    for mode in [0o600, 0o640, 0o660] {
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).expect("closed");
        assert_eq!(refused(&agent, at).await, Refusal::PermissionDenied, "mode {mode:o}");
    }
    assert_eq!(refused(&agent, "/root/x").await, Refusal::PermissionDenied);
    let outside = agent.home.join("../new");
    let outside = outside.to_str().expect("text");
    let error = agent.client.upload_bytes(&path(outside), UploadOptions::default(), b"x", PATIENCE).await;
    assert_eq!(error.expect_err("not theirs").refusal(), Some(Refusal::PermissionDenied));
    let error = agent.client.mkdir(&path("/etc/rekindle-test"), PARENTS, SOON).await;
    assert_eq!(error.expect_err("not theirs").refusal(), Some(Refusal::PermissionDenied));
    let error = agent.client.remove(&path(at), false, SOON).await;
    assert_eq!(error.expect_err("not theirs").refusal(), Some(Refusal::PermissionDenied));
    // The same behind a link, and through `..`.
    symlink(&secret, agent.home.join("link")).expect("a link");
    assert_eq!(refused(&agent, "link").await, Refusal::PermissionDenied);
    assert_eq!(refused(&agent, "../secret").await, Refusal::PermissionDenied);
    assert_eq!(fs::read_to_string(secret).expect("untouched"), "for root alone");
}

#[tokio::test]
async fn the_agents_own_descriptors_and_memory_cannot_be_reached_through_proc() {
    let agent = agent!();
    for name in ["/proc/self/environ", "/proc/self/mem", "/proc/self/fd/3", "/proc/thread-self/environ"] {
        let error = agent.client.download(&path(name), 1 << 30, tokio::io::sink(), PATIENCE).await;
        let kind = error.expect_err("it must not be read").refusal();
        assert!(
            matches!(kind, Some(Refusal::PermissionDenied | Refusal::InvalidArgument)),
            "{name}: {kind:?}"
        );
    }
}

#[tokio::test]
async fn links_are_followed_for_reading_replaced_by_writing_and_never_followed_by_removal() {
    let agent = agent!();
    agent.shell("mkdir dir; echo inside > dir/file; ln -s dir/file link; ln -s dir dirlink; ln -s nowhere broken; ln -s loop loop").await;
    assert_eq!(download(&agent, b"link").await, b"inside\n");
    let info = agent.client.stat(&path("link"), false, SOON).await.expect("a link");
    assert_eq!(
        (info.kind, info.link_target.expect("a target").as_bytes()),
        (FileKind::Symlink, &b"dir/file"[..])
    );
    let info = agent.client.stat(&path("link"), true, SOON).await.expect("a file");
    assert_eq!((info.kind, info.size), (FileKind::File, 7));
    assert_eq!(refused(&agent, "broken").await, Refusal::NotFound);
    assert_eq!(refused(&agent, "loop").await, Refusal::InvalidArgument);

    upload(&agent, b"link", b"replaced").await;
    assert_eq!(fs::read(agent.home.join("dir/file")).expect("still there"), b"inside\n");
    assert!(!fs::symlink_metadata(agent.home.join("link")).expect("a file").is_symlink());

    agent.client.remove(&path("dirlink"), true, SOON).await.expect("removed");
    assert_eq!(fs::read(agent.home.join("dir/file")).expect("still there"), b"inside\n");
    upload(&agent, b"dir/../dotted", b"x").await;
    assert_eq!(fs::read(agent.home.join("dotted")).expect("it is there"), b"x");
}

#[tokio::test]
async fn a_tree_is_removed_only_when_asked_and_only_itself() {
    let agent = agent!();
    agent
        .shell(
            "mkdir -p tree/a/b beside; echo x > tree/a/b/f; echo y > beside/f; ln -s ../../beside tree/a/out",
        )
        .await;
    let error = agent.client.remove(&path("tree"), false, SOON).await;
    assert_eq!(error.expect_err("it is not empty").refusal(), Some(Refusal::NotEmpty));
    agent.client.remove(&path("tree"), true, SOON).await.expect("removed");
    assert_eq!(names(&agent), [b"beside".to_vec()]);
    assert_eq!(fs::read(agent.home.join("beside/f")).expect("untouched"), b"y\n");
    let error = agent.client.remove(&path("tree"), true, SOON).await;
    assert_eq!(error.expect_err("it is gone").refusal(), Some(Refusal::NotFound));
    for name in ["/", ".", "..", "beside/"] {
        let error = agent.client.remove(&path(name), true, SOON).await;
        assert!(error.is_err(), "{name} must not be removed");
    }
    assert!(agent.home.join("beside/f").exists());
}

#[tokio::test]
async fn a_tree_deeper_than_there_are_descriptors_is_removed_whole() {
    let agent = agent!();
    let limit = std::process::Command::new("prlimit")
        .args(["--pid", &agent.pid().to_string(), "--nofile=256:"])
        .status();
    assert!(limit.expect("prlimit is there").success());
    let levels = "i=0; while [ $i -lt 1000 ]; do mkdir d e; : > f; cd d; i=$((i+1)); done";
    agent.shell(&format!("mkdir deep; cd deep; {levels}")).await;
    agent.shell("mkdir beside; : > beside/kept; ln -s ../beside deep/link").await;
    agent.client.remove(&path("deep"), true, SOON).await.expect("removed");
    assert!(!agent.home.join("deep").exists());
    assert!(agent.home.join("beside/kept").exists(), "a link is not followed");
}

#[tokio::test]
async fn directories_are_made_and_listed() {
    let agent = agent!();
    let info = agent
        .client
        .mkdir(&path("a"), MkdirOptions { mode: 0o700, ..MkdirOptions::default() }, SOON)
        .await
        .expect("made");
    assert_eq!((info.kind, info.mode, info.uid), (FileKind::Directory, 0o700, agent.uid));
    let error = agent.client.mkdir(&path("a"), MkdirOptions::default(), SOON).await;
    assert_eq!(error.expect_err("it exists").refusal(), Some(Refusal::AlreadyExists));
    agent.client.mkdir(&path("a"), PARENTS, SOON).await.expect("that is fine");
    let error = agent.client.mkdir(&path("x/y"), MkdirOptions::default(), SOON).await;
    assert_eq!(error.expect_err("no parent").refusal(), Some(Refusal::NotFound));
    agent.client.mkdir(&path("x/y/z"), PARENTS, SOON).await.expect("made");
    let fresh = MkdirOptions { mode: 0o777, must_not_exist: true, ..PARENTS };
    let error = agent.client.mkdir(&path("x/y/z"), fresh, SOON).await;
    assert_eq!(error.expect_err("it exists").refusal(), Some(Refusal::AlreadyExists));
    let info = agent.client.mkdir(&path("p/q"), fresh, SOON).await.expect("made");
    assert_eq!(info.mode, 0o777, "not what a umask leaves of it");
    agent.shell("rm -r p").await;
    agent.shell("cd x; for i in $(seq 1234); do : > f$i; done; mkfifo pipe").await;

    let all = agent.client.list(&path("x"), 0, SOON).await.expect("a listing");
    assert_eq!((all.entries.len(), all.truncated), (1236, false));
    assert!(all.entries.is_sorted_by_key(|entry| entry.path.as_bytes().to_vec()));
    let pipe = all.entries.iter().find(|entry| entry.path.as_bytes() == b"pipe").expect("it is there");
    assert_eq!(pipe.kind, FileKind::Other);
    let some = agent.client.list(&path("x"), 10, SOON).await.expect("a listing");
    assert_eq!((some.entries.len(), some.truncated), (10, true));
    let empty = agent.client.list(&path("x/y/z"), 0, SOON).await.expect("a listing");
    assert_eq!((empty.entries.len(), empty.truncated), (0, false));
    let error = agent.client.list(&path("x/f1"), 0, SOON).await;
    assert_eq!(error.expect_err("a file").refusal(), Some(Refusal::NotADirectory));
    let error = agent.client.list(&path("nowhere"), 0, SOON).await;
    assert_eq!(error.expect_err("nothing").refusal(), Some(Refusal::NotFound));
}

#[tokio::test]
async fn pipes_and_devices_neither_hang_nor_flow() {
    let agent = agent!();
    agent.shell("mkfifo pipe").await;
    let _socket = std::os::unix::net::UnixListener::bind(agent.home.join("socket")).expect("a socket");
    fs::set_permissions(agent.home.join("socket"), fs::Permissions::from_mode(0o777)).expect("open to all");
    for name in ["pipe", "/dev/zero", "socket"] {
        assert_eq!(refused(&agent, name).await, Refusal::InvalidArgument, "{name}");
    }
    agent.answers().await;
}

#[tokio::test]
async fn a_directory_downloads_as_a_tar_archive_of_what_the_user_may_read() {
    let agent = agent!();
    agent.shell("mkdir -p d/sub/empty; printf abc > d/file; printf xyz > d/sub/'odd name'; chmod 750 d/file; ln -s ../file d/sub/link; mkfifo d/pipe").await;
    fs::write(agent.home.join("d/root"), "secret").expect("written");
    fs::set_permissions(agent.home.join("d/root"), fs::Permissions::from_mode(0o600)).expect("closed");
    let long = "n".repeat(200);
    agent.shell(&format!("echo long > d/{long}")).await;

    let mut content = Vec::new();
    let downloaded =
        agent.client.download(&path("d"), 1 << 20, &mut content, PATIENCE).await.expect("downloaded");
    assert_eq!((downloaded.info.kind, downloaded.size), (FileKind::Directory, content.len() as u64));
    let mut archive = tar::Archive::new(&content[..]);
    let mut seen = std::collections::BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry
            .path()
            .expect("a path")
            .to_string_lossy()
            .trim_start_matches("./")
            .trim_end_matches('/')
            .to_owned();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).expect("content");
        let link = entry.link_name().expect("a header").map(|link| link.to_string_lossy().into_owned());
        seen.insert(name, (entry.header().mode().expect("a mode"), link.unwrap_or(text)));
    }
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    // The first is the directory itself.
    assert_eq!(names, ["", "file", &long, "sub", "sub/empty", "sub/link", "sub/odd name"]);
    assert_eq!(seen["file"], (0o750, "abc".to_owned()));
    assert_eq!(seen["sub/odd name"].1, "xyz");
    assert_eq!(seen["sub/link"].1, "../file");

    let error = agent.client.download(&path("d"), 1000, tokio::io::sink(), PATIENCE).await;
    assert!(error.is_err(), "the bound holds for archives too");
}

#[tokio::test]
async fn many_transfers_at_once_stay_apart() {
    let agent = agent!();
    let transfers: Vec<_> = (0..64u8)
        .map(|i| {
            let client = agent.client.clone();
            tokio::spawn(async move {
                let name = path(format!("file{i}"));
                let content = vec![i; 300_000 + usize::from(i)];
                client
                    .upload_bytes(&name, UploadOptions::default(), &content, PATIENCE)
                    .await
                    .expect("uploaded");
                let mut back = Vec::new();
                client.download(&name, 1 << 20, &mut back, PATIENCE).await.expect("downloaded");
                assert!(back == content, "file {i}");
            })
        })
        .collect();
    for transfer in transfers {
        transfer.await.expect("its own bytes came back");
    }
}
