//! Clients that do not behave like the crate's own: they keep no deadline, or speak HTTP/2 by hand.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use rekindle_api::v1;
use rekindle_api::{Code, Status};
use rekindle_test_support::wait::in_time;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// The path of `Execute`.
pub const EXECUTE: &str = "/rekindle.v1.Sandboxes/Execute";

/// A client that hears what the server says even when its own deadline is over: it hides the header from the
/// crate's transport, which would give up by itself.
pub struct Patient {
    socket: PathBuf,
}

pub async fn client(socket: &Path) -> Patient {
    Patient { socket: socket.to_owned() }
}

impl Patient {
    /// Executes, with the request's own headers.
    pub async fn execute(
        &mut self,
        request: rekindle_api::Request<v1::ExecuteRequest>,
    ) -> Result<(), Status> {
        let (metadata, _, message) = request.into_parts();
        let mut send = connect(&self.socket).await;
        let (answer, mut body) = call(&mut send, EXECUTE, metadata.into_headers()).await;
        body.send_data(framed(&prost::Message::encode_to_vec(&message)), true).expect("sent");
        let (headers, trailers) = finish(answer).await?;
        let status = Status::from_header_map(&trailers).or_else(|| Status::from_header_map(&headers));
        match status {
            Some(status) if status.code() != Code::Ok => Err(status),
            _ => Ok(()),
        }
    }
}

/// A message with its length before it.
pub fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

/// An HTTP/2 connection.
pub async fn connect(socket: &Path) -> SendRequest<Bytes> {
    let io = UnixStream::connect(socket).await.expect("connected");
    let (send, connection) = h2::client::handshake(io).await.expect("shaken hands");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    send
}

/// Opens a call.
pub async fn call(
    send: &mut SendRequest<Bytes>,
    path: &str,
    headers: HeaderMap,
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::post(format!("http://rekindle.invalid{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    request.headers_mut().extend(headers);
    let mut ready = send.clone().ready().await.expect("a connection");
    ready.send_request(request, false).expect("a stream")
}

/// Headers and trailers of an answer.
pub async fn finish(answer: ResponseFuture) -> Result<(HeaderMap, HeaderMap), Status> {
    let broken = |error: h2::Error| Status::unavailable(error.to_string());
    let answer = in_time("an answer", answer).await.map_err(broken)?;
    drain(answer).await
}

/// Reads an answer to its end.
async fn drain(answer: Response<RecvStream>) -> Result<(HeaderMap, HeaderMap), Status> {
    let broken = |error: h2::Error| Status::unavailable(error.to_string());
    let headers = answer.headers().clone();
    let mut body: RecvStream = answer.into_body();
    while let Some(data) = body.data().await {
        let data = data.map_err(broken)?;
        let _ = body.flow_control().release_capacity(data.len());
    }
    Ok((headers, body.trailers().await.map_err(broken)?.unwrap_or_default()))
}

/// The status of an answer.
pub async fn status(answer: ResponseFuture) -> Status {
    said(finish(answer).await)
}

/// The status at the end of an answer that has begun.
pub async fn trailing_status(answer: Response<RecvStream>) -> Status {
    said(drain(answer).await)
}

fn said(answer: Result<(HeaderMap, HeaderMap), Status>) -> Status {
    match answer {
        Ok((headers, trailers)) => Status::from_header_map(&trailers)
            .or_else(|| Status::from_header_map(&headers))
            .expect("a status"),
        Err(status) => status,
    }
}

/// A plain channel to the socket, for services that are not the crate's own.
pub async fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let dial = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://rekindle.invalid").connect_with_connector(dial).await.expect("connected")
}
