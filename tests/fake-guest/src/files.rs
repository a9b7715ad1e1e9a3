//! The guest's files, in memory: a map from paths to contents, and the transfers that move them.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::frame;
use rekindle_protocol::limits::{CHUNK_BYTES, MAX_LIST_ENTRIES};
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::file_event::Kind;
use rekindle_protocol::wire::upload_part::Part;
use rekindle_protocol::wire::{self, ErrorCode, FileKind, response::Reply};
use tokio::sync::watch;

use crate::guest::Guest;
use crate::paths::{HOME, absolute, parent, prefix};
use crate::reply::{Refused, finish, send};

/// Where only root may make directories.
const ROOTS: &[u8] = b"/srv";
/// Entries in one frame of a listing.
const PART: usize = 256;
/// The sandbox's user.
const USER: u32 = 1000;
const ROOT: u32 = 0;

const NOT_FOUND: Refused = (ErrorCode::NotFound, "no such file");
const DENIED: Refused = (ErrorCode::PermissionDenied, "permission denied");

#[derive(Debug, Clone)]
struct Node {
    /// Absent: a directory.
    content: Option<Bytes>,
    mode: u32,
    modified: i64,
    /// Who made it.
    owner: u32,
    metadata: Vec<wire::FileMetadata>,
}

impl Node {
    fn new(content: Option<Bytes>, mode: u32) -> Self {
        Self { content, mode, modified: now(), owner: USER, metadata: Vec::new() }
    }
}

/// A tree of files. Parents of every path exist.
#[derive(Debug)]
pub(crate) struct Files {
    nodes: BTreeMap<Vec<u8>, Node>,
    /// Everything that was done, by path.
    pub(crate) log: watch::Sender<Vec<(Vec<u8>, i32)>>,
}

impl Default for Files {
    fn default() -> Self {
        let mut files = Self { nodes: BTreeMap::new(), log: watch::Sender::default() };
        files.make_directory(HOME, 0o755, USER);
        files.make_directory(ROOTS, 0o755, ROOT);
        files
    }
}

impl Files {
    pub(crate) fn content(&self, path: &[u8]) -> Result<Bytes, Refused> {
        let node = self.nodes.get(&absolute(path)).ok_or(NOT_FOUND)?;
        node.content.clone().ok_or((ErrorCode::IsADirectory, "it is a directory"))
    }

    /// Writes a file, whole; parents are made.
    pub(crate) fn put(&mut self, path: &[u8], content: Bytes, mode: u32) -> Result<(), Refused> {
        let path = absolute(path);
        if self.nodes.get(&path).is_some_and(|node| node.content.is_none()) {
            return Err((ErrorCode::IsADirectory, "a directory is there"));
        }
        let parent = parent(&path).to_vec();
        if self.file_on_the_way(&parent) {
            return Err((ErrorCode::NotADirectory, "a parent is a file"));
        }
        self.make_directory(&parent, 0o755, USER);
        let mode = if mode == 0 { 0o644 } else { mode & 0o777 };
        let node = Node::new(Some(content), mode);
        if self.nodes.insert(path.clone(), node).is_none() {
            self.note(&path, Kind::Created);
        }
        self.note(&path, Kind::Written);
        Ok(())
    }

    pub(crate) fn stat(&self, path: &[u8]) -> Result<wire::FileInfo, Refused> {
        let node = self.nodes.get(&absolute(path)).ok_or(NOT_FOUND)?;
        Ok(info(path, node))
    }

    pub(crate) fn mkdir(&mut self, request: &wire::MkdirRequest) -> Result<wire::FileInfo, Refused> {
        let path = absolute(&request.path);
        match self.nodes.get(&path) {
            Some(node) if node.content.is_none() && request.parents && !request.must_not_exist => {}
            Some(_) => return Err((ErrorCode::AlreadyExists, "it exists")),
            None if self.file_on_the_way(&path) => {
                return Err((ErrorCode::NotADirectory, "a parent is a file"));
            }
            None if !request.parents && !self.nodes.contains_key(parent(&path)) => return Err(NOT_FOUND),
            None if self.is_denied(&path, &request.user) => return Err(DENIED),
            None => {
                let mode = if request.mode == 0 { 0o755 } else { request.mode & 0o7777 };
                self.make_directory(&path, mode, number(&request.user));
            }
        }
        self.stat(&request.path)
    }

    pub(crate) fn rename(&mut self, request: &wire::RenameRequest) -> Result<wire::FileInfo, Refused> {
        let (from, to) = (absolute(&request.from), absolute(&request.to));
        let source = self.nodes.get(&from).ok_or(NOT_FOUND)?.clone();
        match self.nodes.get(&to) {
            Some(_) if request.must_not_exist => return Err((ErrorCode::AlreadyExists, "it exists")),
            Some(node) => match (source.content.is_some(), node.content.is_some()) {
                (true, false) => return Err((ErrorCode::IsADirectory, "a directory is there")),
                (false, true) => return Err((ErrorCode::NotADirectory, "a file is there")),
                (false, false) if from != to && self.below(&to).next().is_some() => {
                    return Err((ErrorCode::NotEmpty, "the directory is not empty"));
                }
                _ => {}
            },
            None if to.starts_with(&prefix(&from)) => {
                return Err((ErrorCode::InvalidArgument, "a directory cannot be moved into itself"));
            }
            None if self.file_on_the_way(&to) => {
                return Err((ErrorCode::NotADirectory, "a parent is a file"));
            }
            None if self.is_denied(&to, &request.user) => return Err(DENIED),
            None => self.make_directory(parent(&to), 0o755, number(&request.user)),
        }
        let below: Vec<Vec<u8>> = self.below(&from).map(|(path, _)| path.clone()).collect();
        for path in below.into_iter().chain([from.clone()]) {
            if let Some(node) = self.nodes.remove(&path) {
                if path == from {
                    self.note(&from, Kind::Renamed);
                    self.note(&to, Kind::Created);
                }
                self.nodes.insert([&to[..], &path[from.len()..]].concat(), node);
            }
        }
        self.stat(&request.to)
    }

    pub(crate) fn remove(&mut self, path: &[u8], recursive: bool) -> Result<(), Refused> {
        let path = absolute(path);
        if !self.nodes.contains_key(&path) {
            return Err(NOT_FOUND);
        }
        let below: Vec<Vec<u8>> = self.below(&path).map(|(path, _)| path.clone()).collect();
        if !below.is_empty() && !recursive {
            return Err((ErrorCode::NotEmpty, "the directory is not empty"));
        }
        for path in below.iter().chain([&path]) {
            self.nodes.remove(path);
            self.note(path, Kind::Removed);
        }
        Ok(())
    }

    /// The entries of a directory and of those below it, so many levels, named by their path from it.
    fn entries(&self, path: &[u8], depth: usize) -> Result<Vec<wire::FileInfo>, Refused> {
        let path = absolute(path);
        let node = self.nodes.get(&path).ok_or(NOT_FOUND)?;
        if node.content.is_some() {
            return Err((ErrorCode::NotADirectory, "it is no directory"));
        }
        let skip = prefix(&path).len();
        let level = |below: &[u8]| below[skip..].split(|byte| *byte == b'/').count();
        let mut found: Vec<_> = self.below(&path).filter(|(below, _)| level(below) <= depth).collect();
        // By name within a directory, each directory before what is in it.
        found.sort_by(|(one, _), (other, _)| {
            one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
        });
        Ok(found.into_iter().map(|(path, node)| info(&path[skip..], node)).collect())
    }

    /// A directory as a tar archive.
    fn archive(&self, path: &[u8]) -> Bytes {
        let path = absolute(path);
        let skip = prefix(&path).len();
        let mut archive = tar::Builder::new(Vec::new());
        for (path, node) in self.below(&path) {
            let mut header = tar::Header::new_gnu();
            let content = node.content.clone().unwrap_or_default();
            header.set_entry_type(if node.content.is_some() {
                tar::EntryType::Regular
            } else {
                tar::EntryType::Directory
            });
            header.set_mode(node.mode);
            header.set_size(content.len() as u64);
            let name = String::from_utf8_lossy(&path[skip..]).into_owned();
            archive.append_data(&mut header, name, &content[..]).expect("memory takes every byte");
        }
        archive.into_inner().expect("memory takes every byte").into()
    }

    fn below<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Node)> + use<'a> {
        let prefix = prefix(path);
        let from = prefix.clone();
        self.nodes
            .range(from..)
            .filter(|(path, _)| path.len() > 1)
            .take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// What the paths below a directory begin with.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<Vec<u8>, Refused> {
        self.entries(path, 1)?;
        Ok(prefix(&absolute(path)))
    }

    fn note(&self, path: &[u8], kind: Kind) {
        self.log.send_modify(|log| log.push((path.to_vec(), kind.into())));
    }

    fn file_on_the_way(&self, mut path: &[u8]) -> bool {
        loop {
            if self.nodes.get(path).is_some_and(|node| node.content.is_some()) {
                return true;
            }
            if path == b"/" {
                return false;
            }
            path = parent(path);
        }
    }

    /// Whether only root may make this.
    fn is_denied(&self, mut path: &[u8], user: &str) -> bool {
        loop {
            path = parent(path);
            match self.nodes.get(path) {
                Some(node) => return node.owner == ROOT && node.mode & 0o002 == 0 && number(user) != ROOT,
                None if path == b"/" => return false,
                None => {}
            }
        }
    }

    fn make_directory(&mut self, path: &[u8], mode: u32, owner: u32) {
        let mut path = path;
        let mut mode = mode;
        while !self.nodes.contains_key(path) {
            self.nodes.insert(path.to_vec(), Node { owner, ..Node::new(None, mode) });
            self.note(path, Kind::Created);
            mode = 0o755;
            path = parent(path);
        }
    }
}

fn info(path: &[u8], node: &Node) -> wire::FileInfo {
    let kind = if node.content.is_some() { FileKind::File } else { FileKind::Directory };
    wire::FileInfo {
        path: Bytes::copy_from_slice(path),
        kind: kind.into(),
        size: node.content.as_ref().map_or(0, |content| content.len() as u64),
        mode: node.mode,
        uid: node.owner,
        gid: node.owner,
        modified_nanos: node.modified,
        owner: name(node.owner),
        group: name(node.owner),
        metadata: node.metadata.clone(),
        ..wire::FileInfo::default()
    }
}

fn number(user: &str) -> u32 {
    if user == "root" { ROOT } else { USER }
}

fn name(id: u32) -> String {
    if id == USER { "user".into() } else { "root".into() }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Takes one file.
pub(crate) async fn upload(guest: &Guest, request: wire::UploadRequest, mut stream: Stream) {
    let limit = guest.sandbox().limits.map_or(0, |limits| limits.upload_bytes);
    let mut content = BytesMut::new();
    let taken = loop {
        // A stream that ends before the end leaves nothing behind.
        let Ok(Some(part)) = frame::read::<wire::UploadPart>(&mut stream).await else { return };
        match part.part {
            Some(Part::Chunk(chunk)) => content.extend_from_slice(&chunk.data),
            Some(Part::End(end)) => break store(guest, &request, content.freeze(), &end),
            None => break Err((ErrorCode::InvalidArgument, "an empty part")),
        }
        if limit > 0 && content.len() as u64 > limit {
            break Err((ErrorCode::TooLarge, "the file is larger than the sandbox allows"));
        }
    };
    finish(stream, taken.map(Reply::File)).await;
}

fn store(
    guest: &Guest,
    request: &wire::UploadRequest,
    content: Bytes,
    end: &wire::TransferEnd,
) -> Result<wire::FileInfo, Refused> {
    let checksum = Checksum::of(&content);
    if checksum != end.checksum || content.len() as u64 != end.size {
        return Err((ErrorCode::ChecksumMismatch, "other bytes arrived than were announced"));
    }
    let mut files = guest.files();
    if request.must_not_exist && files.stat(&request.path).is_ok() {
        return Err((ErrorCode::AlreadyExists, "the path exists"));
    }
    let before = files.nodes.get(&absolute(&request.path)).filter(|_| request.in_place).cloned();
    files.put(&request.path, content, request.mode)?;
    if let Some(node) = files.nodes.get_mut(&absolute(&request.path)) {
        let owner = number(&request.user);
        (node.mode, node.owner) = before.map_or((node.mode, owner), |before| (before.mode, before.owner));
        node.metadata.clone_from(&request.metadata);
    }
    Ok(wire::FileInfo { checksum, ..files.stat(&request.path)? })
}

/// Sends one file, or a directory as an archive.
pub(crate) async fn download(guest: &Guest, request: &wire::DownloadRequest, mut stream: Stream) {
    let opened = {
        let files = guest.files();
        files.stat(&request.path).map(|info| {
            let content = files.content(&request.path);
            (info, content.unwrap_or_else(|_| files.archive(&request.path)))
        })
    };
    let (info, content) = match opened {
        Ok(opened) => opened,
        Err(refused) => return finish(stream, Err(refused)).await,
    };
    if request.max_bytes > 0 && content.len() as u64 > request.max_bytes {
        return finish(stream, Err((ErrorCode::TooLarge, "there are more bytes than that"))).await;
    }
    if !send(&mut stream, Reply::File(info)).await {
        return;
    }
    for start in (0..content.len()).step_by(CHUNK_BYTES) {
        let data = content.slice(start..content.len().min(start + CHUNK_BYTES));
        if !send(&mut stream, Reply::Chunk(wire::Chunk { data })).await {
            return;
        }
    }
    let end = wire::TransferEnd { checksum: Checksum::of(&content), size: content.len() as u64 };
    finish(stream, Ok(Reply::End(end))).await;
}

/// Lists a directory in parts.
pub(crate) async fn list(guest: &Guest, request: &wire::ListRequest, mut stream: Stream) {
    let listed = guest.files().entries(&request.path, request.depth.max(1) as usize);
    let mut entries = match listed {
        Ok(entries) => entries,
        Err(refused) => return finish(stream, Err(refused)).await,
    };
    let most = match request.max_entries as usize {
        0 => MAX_LIST_ENTRIES,
        most => most.min(MAX_LIST_ENTRIES),
    };
    let truncated = entries.len() > most;
    entries.truncate(most);
    while entries.len() > PART {
        let rest = entries.split_off(PART);
        let part = wire::Listing { entries, last: false, truncated: false };
        entries = rest;
        if !send(&mut stream, Reply::Listing(part)).await {
            return;
        }
    }
    finish(stream, Ok(Reply::Listing(wire::Listing { entries, last: true, truncated }))).await;
}
