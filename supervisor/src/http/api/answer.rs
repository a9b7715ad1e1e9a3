//! What the handler answers, turned from frames of gRPC into JSON.

use axum::body::Body;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures::stream::unfold;
use http_body_util::BodyExt as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::request::Trouble;
use super::status::{self, Status};
use crate::http::connect::{self, Code, ConnectError, Frames, Stop};

/// Reads an answer. It is over where its status says so, and nowhere else.
pub(super) struct Reader {
    body: Body,
    frames: Frames,
    status: Option<Status>,
    pool: DescriptorPool,
    trouble: Trouble,
}

impl Reader {
    pub(super) fn new(answer: Response<Body>, pool: &DescriptorPool, trouble: Trouble) -> Self {
        let (parts, body) = answer.into_parts();
        let status = status::of(&parts.headers, pool);
        // It is this server's own answer, and as large as it is over gRPC.
        Self { body, frames: Frames::new(u32::MAX as usize), status, pool: pool.clone(), trouble }
    }

    /// The next message; `None` once the call has ended well.
    async fn next(&mut self) -> Result<Option<Bytes>, Stop> {
        loop {
            if let Some(message) = self.frames.next().map_err(|_| Stop::Cut)? {
                return Ok(Some(message));
            }
            match self.status.take() {
                None => {}
                Some(Ok(())) => return Ok(None),
                Some(Err(mut error)) => {
                    // What was wrong with the request is better known where it was read.
                    if let Some(trouble) = self.trouble.get() {
                        error.message.clone_from(&trouble.message);
                    }
                    return Err(Stop::Error(error));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.take(frame)?,
                Some(Err(_)) | None => return Err(Stop::Cut),
            }
        }
    }

    fn take(&mut self, frame: hyper::body::Frame<Bytes>) -> Result<(), Stop> {
        match frame.into_data() {
            Ok(data) => self.frames.push(&data),
            Err(frame) => {
                let trailers: HeaderMap = frame.into_trailers().map_err(|_| Stop::Cut)?;
                self.status = status::of(&trailers, &self.pool);
            }
        }
        Ok(())
    }

    /// Why there is no answer, where there cannot be one.
    pub(super) async fn refusal(mut self) -> ConnectError {
        match self.next().await {
            Err(Stop::Error(error)) => error,
            _ => lost(),
        }
    }
}

/// The answer of a call with one.
pub(super) async fn unary(mut answered: Reader, method: &MethodDescriptor) -> Response<Body> {
    let message = match answered.next().await {
        Ok(Some(message)) => message,
        Err(Stop::Error(error)) => return connect::refused(&error),
        Ok(None) | Err(Stop::Cut) => return connect::refused(&lost()),
    };
    // A message counts once its status is there.
    match answered.next().await {
        Ok(None) => {}
        Err(Stop::Error(error)) => return connect::refused(&error),
        Ok(Some(_)) | Err(Stop::Cut) => return connect::refused(&lost()),
    }
    match DynamicMessage::decode(method.output(), message) {
        Ok(message) => connect::unary(&message),
        Err(_) => connect::refused(&lost()),
    }
}

/// The answer of a call with any number of them.
pub(super) fn stream(answered: Reader, method: MethodDescriptor) -> Response<Body> {
    connect::stream(unfold(Some((answered, method)), |state| async {
        let (mut answered, method) = state?;
        match answered.next().await {
            Ok(None) => None,
            Ok(Some(message)) => match DynamicMessage::decode(method.output(), message) {
                Ok(message) => Some((Ok(message), Some((answered, method)))),
                Err(_) => Some((Err(Stop::Cut), None)),
            },
            Err(stop) => Some((Err(stop), None)),
        }
    }))
}

fn lost() -> ConnectError {
    ConnectError::new(Code::Internal, "the server failed; its log says more")
}
