//! Files: up and down whole, or not at all.

use std::collections::BTreeMap;

use bytes::Bytes;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{
    self, ErrorReason, FileKind, download_file_response::Part, upload_file_request::Part as Up,
};
use rekindle_api::{Code, Status, client::Client};
use rekindle_protocol::wire::ErrorCode;
use rekindle_test_support::wait::{in_time, until_answer};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::place::{Place, Wishes, refused};

/// Everything of a download.
pub async fn download(
    client: &mut Client,
    request: v1::DownloadFileRequest,
) -> Result<(Vec<u8>, v1::DownloadFileEnd), Status> {
    let mut parts = client.files.download(request).await?.into_inner();
    let mut content = Vec::new();
    loop {
        match in_time("a part", parts.message()).await?.expect("an end").part.expect("a part") {
            Part::Chunk(chunk) => content.extend_from_slice(&chunk),
            Part::End(end) => {
                assert!(parts.message().await?.is_none(), "nothing follows the end");
                return Ok((content, end));
            }
        }
    }
}

pub fn file(sandbox: &str, path: &str) -> v1::UploadFileStart {
    v1::UploadFileStart {
        sandbox: sandbox.into(),
        path: path.to_owned().into(),
        ..v1::UploadFileStart::default()
    }
}

/// The word that makes an upload whole.
const END: Up = Up::End(v1::UploadFileEnd {});

fn part(part: Up) -> v1::UploadFileRequest {
    v1::UploadFileRequest { part: Some(part) }
}

pub async fn upload(
    client: &mut Client,
    file: v1::UploadFileStart,
    content: &Bytes,
) -> Result<tonic::Response<v1::FileInfo>, Status> {
    let chunks = (0..content.len())
        .step_by(256 * 1024)
        .map(|at| content.slice(at..content.len().min(at + 256 * 1024)));
    let parts = std::iter::once(Up::Start(file)).chain(chunks.map(Up::Chunk)).chain([END]);
    let parts: Vec<_> = parts.map(part).collect();
    in_time("the upload", client.files.upload(futures::stream::iter(parts))).await
}

pub fn read(sandbox: &str, path: &str, max_bytes: u64) -> v1::DownloadFileRequest {
    v1::DownloadFileRequest {
        sandbox: sandbox.into(),
        path: path.to_owned().into(),
        max_bytes,
        user: String::new(),
    }
}

/// Bytes that no compression and no shift leaves alike.
fn noise(length: usize) -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(length).collect::<Vec<u8>>().into()
}

#[tokio::test]
async fn a_file_goes_up_and_comes_down_with_its_sum() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    for length in [0, 1, 128 * 1024, 4 * 1024 * 1024 + 17] {
        let content = noise(length);
        let sum = Bytes::copy_from_slice(&Sha256::digest(&content));
        let sent = upload(
            &mut client,
            v1::UploadFileStart { mode: Some(0o600), ..file(&id, "deep/data") },
            &content,
        )
        .await;
        let sent = sent.expect("uploaded").into_inner();
        assert_eq!((sent.size, sent.mode, &sent.sha256), (length as u64, 0o600, &sum));
        assert!(guest.file("deep/data").expect("there") == content, "{length}");
        let (back, end) = download(&mut client, read(&id, "deep/data", 0)).await.expect("downloaded");
        assert!(back == content, "{length}");
        assert_eq!((end.size, &end.sha256), (length as u64, &sum));
    }
    let look = |path: &str| v1::StatFileRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        user: String::new(),
    };
    let info = client.files.stat(look("deep/data")).await.expect("there").into_inner();
    assert_eq!((info.kind(), info.size), (FileKind::File, 4 * 1024 * 1024 + 17));
    let list = |path: &str| v1::ListFilesRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        max_entries: 0,
        depth: 0,
        user: String::new(),
    };
    for (path, name) in [("", "deep"), ("deep", "data"), ("/home/user/deep", "data")] {
        let entries = client.files.list(list(path)).await.expect("listed").into_inner().entries;
        assert_eq!(
            entries.iter().map(|entry| &entry.path[..]).collect::<Vec<_>>(),
            [name.as_bytes()],
            "{path}"
        );
    }
    let (archive, _) = download(&mut client, read(&id, "deep", 0)).await.expect("a directory is an archive");
    assert!(archive.windows(4).any(|window| window == b"data"));
    let remove = |path: &str, recursive| v1::RemoveFileRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        recursive,
        user: String::new(),
    };
    let full = client.files.remove(remove("deep", false)).await;
    refused(full, Code::FailedPrecondition, ErrorReason::WrongFileKind);
    client.files.remove(remove("deep", true)).await.expect("removed");
    assert!(guest.file("deep/data").is_none());
    let usage =
        client.sandboxes.get(v1::GetSandboxRequest { sandbox: id }).await.expect("found").into_inner().usage;
    let usage = usage.expect("usage");
    let moved = 1 + 128 * 1024 + 4 * 1024 * 1024 + 17;
    assert_eq!((usage.bytes_in, usage.bytes_out), (moved, moved + archive.len() as u64));
}

#[tokio::test]
async fn owners_metadata_levels_and_writing_in_place_come_through() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _guest) = place.sandbox(&mut client).await;
    let metadata = BTreeMap::from([("author".to_owned(), "mish".to_owned())]);
    let start =
        v1::UploadFileStart { mode: Some(0o600), metadata: metadata.clone(), ..file(&id, "d/e/file") };
    let sent = upload(&mut client, start, &"one".into()).await.expect("uploaded").into_inner();
    assert_eq!((&sent.metadata, sent.owner.as_str(), sent.group.as_str()), (&metadata, "user", "user"));
    let list = v1::ListFilesRequest { sandbox: id.clone(), depth: 2, ..Default::default() };
    let entries = client.files.list(list.clone()).await.expect("listed").into_inner().entries;
    assert_eq!(entries.iter().map(|entry| &entry.path[..]).collect::<Vec<_>>(), [&b"d"[..], b"d/e"]);
    let deeper = client.files.list(v1::ListFilesRequest { depth: 9, ..list }).await;
    let entries = deeper.expect("listed").into_inner().entries;
    assert_eq!((&entries[2].path[..], &entries[2].metadata), (&b"d/e/file"[..], &metadata));
    // In place the permissions stay; what was noted does not.
    let start = v1::UploadFileStart { mode: Some(0o644), in_place: true, ..file(&id, "d/e/file") };
    let sent = upload(&mut client, start, &"two".into()).await.expect("uploaded").into_inner();
    assert_eq!((sent.mode, sent.metadata.is_empty()), (0o600, true));
    for (name, value) in [("", "x"), ("a b", "x"), ("a", "\n"), ("a", &"x".repeat(4000))] {
        let metadata = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let start = v1::UploadFileStart { metadata, ..file(&id, "never") };
        refused(
            upload(&mut client, start, &"x".into()).await,
            Code::InvalidArgument,
            ErrorReason::InvalidRequest,
        );
    }
    let never = v1::StatFileRequest { sandbox: id, path: "never".into(), user: String::new() };
    refused(client.files.stat(never).await, Code::NotFound, ErrorReason::NotFound);
}

#[tokio::test]
async fn a_caller_that_vanishes_in_the_middle_leaves_no_file() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut other = place.client().await;
    let (words, receiver) = mpsc::channel(4);
    let stream =
        futures::stream::unfold(receiver, |mut receiver: mpsc::Receiver<v1::UploadFileRequest>| async move {
            let word = receiver.recv().await?;
            Some((word, receiver))
        });
    let sending = tokio::spawn(async move { other.files.upload(stream).await });
    words.send(part(Up::Start(file(&id, "half")))).await.expect("room");
    for _ in 0..8 {
        words.send(part(Up::Chunk(noise(256 * 1024)))).await.expect("room");
    }
    sending.abort();
    // Done with when the timeline has it.
    let entry = until_answer("remembered", async || {
        let asked = v1::SandboxTimelineRequest { sandbox: id.clone(), ..Default::default() };
        let told = client.sandboxes.timeline(asked).await.expect("told").into_inner();
        told.entries.into_iter().next_back().filter(|entry| entry.call != "create")
    })
    .await;
    assert_eq!((entry.call.as_str(), entry.subject.as_str()), ("upload", "half"));
    assert!(!matches!(entry.came(), Some(Came::Done(_))), "{entry:?}");
    // Only now: an end of the content before the caller vanished would have made the file whole.
    drop(words);
    assert!(guest.file("half").is_none());
    // And a download nobody reads to its end is given up.
    upload(&mut client, file(&id, "large"), &noise(8 << 20)).await.expect("uploaded");
    let parts = client.files.download(read(&id, "large", 0)).await.expect("begun");
    drop(parts);
    upload(&mut client, file(&id, "half"), &noise(10)).await.expect("whole this time");
    assert_eq!(guest.file("half").expect("there").len(), 10);
}

#[tokio::test]
async fn content_of_another_size_than_announced_leaves_no_file() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let content = noise(300_000);
    for size in [0, 299_999, 300_001] {
        let announced = v1::UploadFileStart { size: Some(size), ..file(&id, "announced") };
        let status = upload(&mut client, announced, &content).await.expect_err("another size");
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains("announced"), "{status:?}");
        assert!(guest.file("announced").is_none(), "{size}");
    }
    let announced = v1::UploadFileStart { size: Some(300_000), ..file(&id, "announced") };
    upload(&mut client, announced, &content).await.expect("as announced");
    assert!(guest.file("announced").expect("there") == content);
}

#[tokio::test]
async fn paths_and_files_that_cannot_be_are_refused_with_a_reason() {
    let service = |config: &mut rekindle::service::ServiceConfig| {
        config.max_upload_bytes = 100_000;
        config.max_download_bytes = 1 << 20;
    };
    let place = Place::with(Wishes { service, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let small = noise(10);
    for wrong in ["", "a\0b", &"x".repeat(5000)] {
        let sent = upload(&mut client, file(&id, wrong), &small).await;
        refused(sent, Code::InvalidArgument, ErrorReason::InvalidRequest);
        let look =
            v1::StatFileRequest { sandbox: id.clone(), path: wrong.to_owned().into(), user: String::new() };
        refused(client.files.stat(look).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
        let back = client.files.download(read(&id, wrong, 0)).await;
        refused(back, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    upload(&mut client, file(&id, "there"), &small).await.expect("uploaded");
    let again = v1::UploadFileStart { must_not_exist: true, ..file(&id, "there") };
    refused(upload(&mut client, again, &small).await, Code::AlreadyExists, ErrorReason::AlreadyExists);
    let below = upload(&mut client, file(&id, "there/below"), &small).await;
    refused(below, Code::FailedPrecondition, ErrorReason::WrongFileKind);
    let large = upload(&mut client, file(&id, "large"), &noise(200_000)).await;
    refused(large, Code::InvalidArgument, ErrorReason::LimitExceeded);
    assert!(guest.file("large").is_none());

    let reason = |status: &Status| (status.code(), crate::place::detail(status).reason());
    let missing = download(&mut client, read(&id, "missing", 0)).await.expect_err("not there");
    assert_eq!(reason(&missing), (Code::NotFound, ErrorReason::NotFound));
    let more = download(&mut client, read(&id, "there", 3)).await.expect_err("larger");
    assert_eq!(reason(&more), (Code::InvalidArgument, ErrorReason::LimitExceeded));
    let most = download(&mut client, read(&id, "there", 2 << 20)).await.expect_err("beyond the maximum");
    assert_eq!(reason(&most), (Code::InvalidArgument, ErrorReason::LimitExceeded));
    for (code, expected) in [
        (ErrorCode::PermissionDenied, (Code::PermissionDenied, ErrorReason::PermissionDenied)),
        (ErrorCode::NoSpace, (Code::ResourceExhausted, ErrorReason::NoSpace)),
    ] {
        guest.refuse_next(code);
        let sent = upload(&mut client, file(&id, "any"), &small).await.expect_err("refused");
        assert_eq!(reason(&sent), expected);
    }

    // Words of an upload in the wrong order.
    let sized = v1::UploadFileStart { size: Some(small.len() as u64), ..file(&id, "twice") };
    let wrong = [
        vec![],
        vec![Up::Chunk(small.clone())],
        vec![END],
        vec![Up::Start(file(&id, "twice")), Up::Chunk(small.clone()), Up::Start(file(&id, "twice"))],
        // The end of the stream is not the end of the file, whatever was announced.
        vec![Up::Start(file(&id, "twice"))],
        vec![Up::Start(file(&id, "twice")), Up::Chunk(small.clone())],
        vec![Up::Start(sized), Up::Chunk(small.clone())],
    ];
    for words in wrong {
        let sent =
            client.files.upload(futures::stream::iter(words.into_iter().map(part).collect::<Vec<_>>())).await;
        refused(sent, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    assert!(guest.file("twice").is_none());
}

#[tokio::test]
async fn an_upload_that_stops_at_a_message_or_in_a_frame_header_leaves_no_file() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut send = crate::raw::connect(&place.socket).await;
    let named = crate::raw::framed(&prost::Message::encode_to_vec(&part(Up::Start(file(&id, "half")))));
    let chunk = crate::raw::framed(&prost::Message::encode_to_vec(&part(Up::Chunk("half of".into()))));
    // Nothing after the last message, the header of a message that never comes, half a header, half a message.
    let header = Bytes::from_static(&[0, 0, 0, 1, 0]);
    for tail in [Bytes::new(), header.clone(), header.slice(..3), chunk.slice(..chunk.len() - 1)] {
        let path = "/rekindle.v1.Files/Upload";
        let (answer, mut body) = crate::raw::call(&mut send, path, Default::default()).await;
        for data in [named.clone(), chunk.clone()] {
            body.send_data(data, false).expect("sent");
        }
        body.send_data(tail, true).expect("sent");
        let status = in_time("an answer", crate::raw::status(answer)).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(guest.file("half").is_none());
    }
}

#[tokio::test]
async fn directories_are_made_and_files_are_moved() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let make = |path: &str, must_not_exist| v1::MakeDirRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        mode: Some(0o700),
        must_not_exist,
        user: String::new(),
    };
    let made = client.files.make_dir(make("a/b", true)).await.expect("made").into_inner();
    assert_eq!((made.kind(), made.mode & 0o777), (v1::FileKind::Directory, 0o700));
    client.files.make_dir(make("a/b", false)).await.expect("one that is there is no error");
    let again = client.files.make_dir(make("a/b", true)).await;
    refused(again, Code::AlreadyExists, ErrorReason::AlreadyExists);

    let content = noise(1000);
    upload(&mut client, file(&id, "one"), &content).await.expect("uploaded");
    let go = |from: &str, to: &str, must_not_exist| v1::MoveFileRequest {
        sandbox: id.clone(),
        from: from.to_owned().into(),
        to: to.to_owned().into(),
        must_not_exist,
        user: String::new(),
    };
    let moved = client.files.r#move(go("one", "a/b/two", true)).await.expect("moved").into_inner();
    assert_eq!((moved.kind(), moved.size), (v1::FileKind::File, 1000));
    assert!(guest.file("one").is_none() && guest.file("a/b/two").expect("there") == content);
    upload(&mut client, file(&id, "three"), &content).await.expect("uploaded");
    let onto = client.files.r#move(go("three", "a/b/two", true)).await;
    refused(onto, Code::AlreadyExists, ErrorReason::AlreadyExists);
    refused(client.files.r#move(go("none", "x", false)).await, Code::NotFound, ErrorReason::NotFound);
    refused(
        client.files.r#move(go("", "x", false)).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
}

#[tokio::test]
async fn no_permissions_are_not_the_default_ones() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for (asked, of_file, of_dir) in [(None, 0o644, 0o755), (Some(0), 0, 0), (Some(0o1751), 0o751, 0o1751)] {
        let start = v1::UploadFileStart { mode: asked, ..file(&id, "file") };
        let sent = upload(&mut client, start, &"x".into()).await.expect("uploaded").into_inner();
        assert_eq!(sent.mode & 0o7777, of_file, "{asked:?}");
        let make = v1::MakeDirRequest {
            sandbox: id.clone(),
            path: format!("dir-{of_dir}").into(),
            mode: asked,
            ..v1::MakeDirRequest::default()
        };
        let made = client.files.make_dir(make).await.expect("made").into_inner();
        assert_eq!(made.mode & 0o7777, of_dir, "{asked:?}");
    }
}

#[tokio::test]
async fn a_watcher_is_told_each_change_from_its_first_message_on() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let make = |path: &str| v1::MakeDirRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        ..v1::MakeDirRequest::default()
    };
    let watch = |path: &str| v1::WatchFilesRequest {
        sandbox: id.clone(),
        path: path.to_owned().into(),
        recursive: true,
        describe: true,
        user: String::new(),
    };
    client.files.make_dir(make("dir")).await.expect("made");
    let mut told = client.files.watch(watch("dir")).await.expect("watched").into_inner();
    let first = in_time("the first message", told.message()).await.expect("begun").expect("a message");
    assert!(first.events.is_empty());
    client.files.make_dir(make("dir/a/b")).await.expect("made");
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(in_time("a change", told.message()).await.expect("told").expect("a message").events);
    }
    events.sort_by(|one, other| one.path.cmp(&other.path));
    let kinds: Vec<_> = events.iter().map(|event| (&event.path[..], event.kind())).collect();
    assert_eq!(kinds, [(&b"a"[..], v1::FileEventKind::Created), (b"a/b", v1::FileEventKind::Created)]);
    assert_eq!(events[1].file.as_ref().expect("described").kind(), FileKind::Directory);
    refused(client.files.watch(watch("none")).await, Code::NotFound, ErrorReason::NotFound);
    client.sandboxes.destroy(v1::DestroySandboxRequest { sandbox: id.clone() }).await.expect("destroyed");
    let end = in_time("the end", told.message()).await.expect_err("the sandbox is gone");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
}
