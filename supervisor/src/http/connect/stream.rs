//! A stream of answers: events in frames, and a last frame that says how it ended.

use std::io;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use futures::stream::unfold;
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use super::code::ConnectError;
use super::frame;

/// Why a stream ends before its time.
#[derive(Debug)]
pub(in crate::http) enum Stop {
    /// For this reason, which its reader is told.
    Error(ConnectError),
    /// The other side is gone: the connection breaks off, as it would with nobody in between.
    Cut,
}

/// The answer of these events.
pub(in crate::http) fn stream<T: Serialize>(
    events: impl Stream<Item = Result<T, Stop>> + Send + 'static,
) -> Response<Body> {
    response(Body::from_stream(frames(events)))
}

/// The answer of a stream that never began.
pub(in crate::http) fn failed(error: &ConnectError) -> Response<Body> {
    response(Body::from(frame::end(Some(error))))
}

fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn frames<T: Serialize>(
    events: impl Stream<Item = Result<T, Stop>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    unfold(Some(Box::pin(events)), |events| async move {
        let mut events = events?;
        Some(match events.next().await {
            Some(Ok(event)) => (Ok(frame::event(&event)), Some(events)),
            Some(Err(Stop::Error(error))) => (Ok(frame::end(Some(&error))), None),
            Some(Err(Stop::Cut)) => (Err(io::Error::other("the sandbox is gone")), None),
            None => (Ok(frame::end(None)), None),
        })
    })
}

#[cfg(test)]
mod tests {
    //! Ends of all kinds.

    use futures::stream::iter;
    use serde_json::json;

    use super::super::code::Code;
    use super::*;

    async fn collect(events: Vec<Result<serde_json::Value, Stop>>) -> Vec<io::Result<Bytes>> {
        frames(iter(events)).collect().await
    }

    #[tokio::test]
    async fn every_stream_says_how_it_ended_unless_it_is_cut() {
        let told = collect(vec![Ok(json!({}))]).await;
        assert_eq!(told.len(), 2);
        assert_eq!(told[1].as_ref().expect("an end")[0], 2);
        let error = ConnectError::new(Code::DeadlineExceeded, "late");
        let told = collect(vec![Ok(json!({})), Err(Stop::Error(error)), Ok(json!({}))]).await;
        assert_eq!(told.len(), 2, "nothing follows an error");
        assert!(told[1].as_ref().expect("an end").ends_with(b"\"late\"}}"));
        let told = collect(vec![Err(Stop::Cut)]).await;
        assert!(told.len() == 1 && told[0].is_err(), "no end that could be taken for one");
    }
}
