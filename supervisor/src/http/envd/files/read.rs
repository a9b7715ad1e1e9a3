//! Reads one file.

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response};

use super::body::{Download, packed};
use super::query::FileQuery;
use crate::agent::FileKind;
use crate::http::envd::admit;
use crate::http::envd::signature::Operation;
use crate::http::envd::trouble::Trouble;
use crate::http::envd::user::User;
use crate::http::front::{Call, Front, revocable};
use crate::http::refusal::HttpRefusal;

/// Answers with a file's content.
pub(in crate::http::envd) async fn read(
    front: &Front,
    sandbox: Option<String>,
    parts: Parts,
) -> Response<Body> {
    let query = match FileQuery::of(&parts.uri) {
        Ok(query) => query,
        Err(refusal) => return refusal.into_response(),
    };
    let admitted = admit::for_file(front, "Files/Read", Operation::Read, sandbox, query.signed(), &parts);
    let (sandbox, mut call) = match admitted.await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    admit::wake(front, &call, &sandbox).await;
    match begin(front, &sandbox, &call, &query).await {
        Ok((download, first)) => {
            let standing = call.standing.take();
            let Call { record, .. } = call;
            let revoked = std::sync::Arc::clone(record.revoked());
            let pieces = download.rest(first, record);
            let pack = wants_gzip(&parts);
            let body = if pack { Body::from_stream(packed(pieces)) } else { Body::from_stream(pieces) };
            let mut response = Response::new(body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
            if pack {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            revocable(response, standing, revoked)
        }
        Err(trouble) => {
            let answer = trouble.http(&sandbox);
            trouble.settle(&mut call.record);
            answer
        }
    }
}

/// The file, once its first piece is there: before that an error is told as one.
async fn begin(
    front: &Front,
    sandbox: &str,
    call: &Call,
    query: &FileQuery,
) -> Result<(Download, Option<bytes::Bytes>), Trouble> {
    let asked = query.path.as_deref().unwrap_or_default();
    let path = User::named(query.user())?.path(asked)?;
    let info = front.service.stat_target(&call.caller, sandbox, &path).await?;
    if info.kind == FileKind::Directory {
        return Err(HttpRefusal::bad_request(format!("path '{path}' is a directory")).into());
    }
    let mut download = Download::begin(&front.service, call.caller.clone(), sandbox.to_owned(), path);
    let first = download.piece().await?;
    Ok((download, first))
}

/// Who asks for gzip and nothing else wants it; a list is what clients send by themselves.
fn wants_gzip(parts: &Parts) -> bool {
    parts.headers.get(ACCEPT_ENCODING).is_some_and(|value| value == "gzip")
}
