//! Writes one file, or the several of a form.

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncRead;

use super::body::content;
use super::multipart::{Multipart, boundary};
use super::query::FileQuery;
use crate::agent::{FileKind, FileMetadata, UploadOptions, UserPath};
use crate::http::envd::admit;
use crate::http::envd::signature::Operation;
use crate::http::envd::trouble::Trouble;
use crate::http::envd::user::User;
use crate::http::front::{Call, Front, lost};
use crate::http::refusal::{HttpRefusal, json_response};
use crate::service::ErrorKind;

/// The parts of a form that are files.
const FILE: &str = "file";
/// What headers begin with that want something noted at a file.
const METADATA: &str = "x-metadata-";

/// Writes what a request brings.
pub(in crate::http::envd) async fn write(
    front: &Front,
    sandbox: Option<String>,
    parts: Parts,
    body: Body,
) -> Response<Body> {
    let query = match FileQuery::of(&parts.uri) {
        Ok(query) => query,
        Err(refusal) => return refusal.into_response(),
    };
    let admitted = admit::for_file(front, "Files/Write", Operation::Write, sandbox, query.signed(), &parts);
    let (sandbox, mut call) = match admitted.await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    admit::wake(front, &call, &sandbox).await;
    let standing = call.standing.take();
    let written = tokio::select! {
        written = take(front, &sandbox, &call, &query, &parts, body) => written,
        () = lost(standing) => return call.revoked(),
    };
    match written {
        Ok(files) => {
            call.record.settle(&Ok(()), "ok");
            json_response(StatusCode::OK, &files.into())
        }
        Err(trouble) => {
            let answer = trouble.http(&sandbox);
            trouble.settle(&mut call.record);
            answer
        }
    }
}

async fn take(
    front: &Front,
    sandbox: &str,
    call: &Call,
    query: &FileQuery,
    parts: &Parts,
    body: Body,
) -> Result<Vec<Value>, Trouble> {
    let user = User::named(query.user())?;
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let metadata = metadata(&parts.headers)?;
    let target = Target { front, sandbox, call, metadata };
    if let Some(boundary) = boundary(kind) {
        if parts.headers.contains_key(CONTENT_ENCODING) {
            return Err(HttpRefusal::bad_request("a form is sent plain").into());
        }
        let mut form = Multipart::new(body, &boundary);
        let mut written = Vec::new();
        while let Some(part) = form.part().await? {
            if part.name != FILE {
                continue;
            }
            let named = query.path.as_deref().or(part.file_name.as_deref());
            let Some(path) = named else {
                return Err(HttpRefusal::bad_request("a file needs a path, or a filename").into());
            };
            let path = user.path(path)?;
            written.push(target.upload(&path, None, form.content()).await?);
        }
        if written.is_empty() {
            return Err(HttpRefusal::bad_request("the form has no part named `file`").into());
        }
        return Ok(written);
    }
    if kind.split(';').next().map(str::trim) != Some("application/octet-stream") {
        let what = "a file is sent as multipart/form-data or as application/octet-stream";
        return Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what).into());
    }
    let Some(path) = &query.path else {
        return Err(HttpRefusal::bad_request("a path is needed").into());
    };
    let path = user.path(path)?;
    let packed = parts.headers.contains_key(CONTENT_ENCODING);
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let size = length.filter(|_| !packed);
    let most = front.service.config().max_upload_bytes;
    if size.is_some_and(|size| size > most) {
        let what = format!("a file may have {most} bytes here");
        return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, what).into());
    }
    let source = content(parts, body)?;
    Ok(vec![target.upload(&path, size, source).await?])
}

/// Where files go.
struct Target<'a> {
    front: &'a Front,
    sandbox: &'a str,
    call: &'a Call,
    /// What is noted at each of them.
    metadata: FileMetadata,
}

/// What `X-Metadata-<name>: <value>` want noted; names arrive in lower case.
fn metadata(headers: &HeaderMap) -> Result<FileMetadata, HttpRefusal> {
    let mut pairs = Vec::new();
    for (header, value) in headers {
        let Some(name) = header.as_str().strip_prefix(METADATA) else { continue };
        let value = std::str::from_utf8(value.as_bytes());
        let value = value.map_err(|_| HttpRefusal::bad_request("the value of metadata is no text"))?;
        pairs.push((name.to_owned(), value.to_owned()));
    }
    FileMetadata::new(pairs).map_err(|error| HttpRefusal::bad_request(error.to_string()))
}

impl Target<'_> {
    /// Writes one file: whole or not at all where it is new, else into the one that is there.
    async fn upload(
        &self,
        path: &UserPath,
        size: Option<u64>,
        source: impl AsyncRead + Unpin + Send,
    ) -> Result<Value, Trouble> {
        let metadata = self.metadata.clone();
        let options = UploadOptions { size, metadata, in_place: true, ..UploadOptions::default() };
        let service = &self.front.service;
        match service.upload(&self.call.caller, self.sandbox, path, options, source).await {
            Ok(info) => {
                let path = String::from_utf8_lossy(path.path.as_bytes());
                let name = path.rsplit('/').next().unwrap_or_default();
                let mut entry = json!({"name": name, "type": "file", "path": path});
                if !info.metadata.is_empty() {
                    entry["metadata"] = json!(info.metadata);
                }
                Ok(entry)
            }
            Err(error) if error.kind() == ErrorKind::WrongFileKind => {
                let there = service.stat_target(&self.call.caller, self.sandbox, path).await;
                let what = if there.is_ok_and(|there| there.kind == FileKind::Directory) {
                    format!("path is a directory: {path}")
                } else {
                    format!("not a directory: a part of {path} is a file")
                };
                Err(HttpRefusal::bad_request(what).into())
            }
            Err(error) => Err(error.into()),
        }
    }
}
