//! Calls by Connect: which there are, and what each of one answer shares.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::admit;
use super::trouble::{Trouble, gone};
use super::user::User;
use super::{filesystem, process};
use crate::http::connect::{self, Code, ConnectError};
use crate::http::front::{Call, Front, lost};
use crate::service::{Caller, Service, ServiceError};

/// Methods with one answer, and with a stream of them. Each has the name that audit log and metrics have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Process(process::Method),
    Filesystem(filesystem::Method),
}

fn method(path: &str) -> Option<(Method, &'static str)> {
    if let Some(name) = path.strip_prefix("/process.Process/") {
        return process::method(name).map(|(method, word)| (Method::Process(method), word));
    }
    let name = path.strip_prefix("/filesystem.Filesystem/")?;
    filesystem::method(name).map(|(method, word)| (Method::Filesystem(method), word))
}

/// A call that was let in, before its message is read.
pub(super) struct Rpc<'a> {
    pub service: &'a Service,
    pub sandbox: String,
    pub call: Call,
    pub parts: Parts,
    pub body: Body,
}

/// Who asks for what, once the message was read.
pub(super) struct Asked<'a> {
    pub service: &'a Service,
    pub caller: &'a Caller,
    pub sandbox: &'a str,
    pub headers: &'a HeaderMap,
    /// What the caller gives the call.
    pub within: Option<Duration>,
}

impl Asked<'_> {
    /// As whom it is done.
    pub(super) fn user(&self) -> Result<User, ConnectError> {
        User::of(self.headers)
    }
}

/// Answers a call.
pub(super) async fn answer(front: &Front, sandbox: String, parts: Parts, body: Body) -> Response<Body> {
    let Some((method, name)) = method(parts.uri.path()) else {
        let unknown = ConnectError::new(Code::Unimplemented, "there is no such method");
        return connect::refused(&unknown);
    };
    let call = match admit::by_token(front, name, &sandbox, &parts) {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    admit::wake(front, &call, &sandbox).await;
    let rpc = Rpc { service: &front.service, sandbox, call, parts, body };
    match method {
        Method::Process(method) => process::answer(method, rpc).await,
        Method::Filesystem(method) => filesystem::answer(method, rpc).await,
    }
}

impl Rpc<'_> {
    /// Does the work of a call with one answer, as long as its token is in force and its caller waits.
    pub(super) async fn unary<Q: DeserializeOwned, A: Serialize>(
        self,
        work: impl AsyncFnOnce(Asked<'_>, Q) -> Result<A, Trouble>,
    ) -> Response<Body> {
        let Self { service, sandbox, mut call, parts, body } = self;
        let standing = call.standing.take();
        let working = async {
            let within = connect::timeout(&parts.headers)?;
            let headers = &parts.headers;
            let asked = Asked { service, caller: &call.caller, sandbox: &sandbox, headers, within };
            let all = async {
                let message = connect::message(&parts, body).await?;
                work(asked, message).await
            };
            match within {
                Some(within) => {
                    timeout(within, all).await.unwrap_or(Err(ServiceError::Deadline { after: within }.into()))
                }
                None => all.await,
            }
        };
        let done = tokio::select! {
            done = working => done,
            () = lost(standing) => {
                call.record.revoked().store(true, std::sync::atomic::Ordering::Release);
                let lost = ConnectError::new(Code::Unauthenticated, "the token is no longer in force");
                return connect::refused(&lost);
            }
        };
        match done {
            Ok(message) => {
                call.record.settle(&Ok(()), "ok");
                connect::unary(&message)
            }
            Err(trouble) => {
                let answer =
                    if trouble.is_gone() { gone(&sandbox) } else { connect::refused(&trouble.connect()) };
                trouble.settle(&mut call.record);
                answer
            }
        }
    }

    /// The answer of a stream that never began.
    pub(super) fn failed(sandbox: &str, mut call: Call, trouble: Trouble) -> Response<Body> {
        let answer = if trouble.is_gone() { gone(sandbox) } else { connect::failed(&trouble.connect()) };
        trouble.settle(&mut call.record);
        answer
    }
}
