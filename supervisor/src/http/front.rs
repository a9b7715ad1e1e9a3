//! The front: what a request is for, who makes it, and what became of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, Request, Response, header};
use hyper::body::Frame;
use tokio::sync::Semaphore;

use super::api::Api;
use super::refusal::HttpRefusal;
use super::{control, envd, interpreter, port};
use crate::config::TemplateName;
use crate::door::{
    Admitted, Authenticator, CallContext, CallRecord, ConnectionInfo, PortsAt, Refused, RevocableBody,
    Standing,
};
use crate::service::{Caller, Service, ServiceError};
use crate::telemetry::Audit;

/// The port of a sandbox at which its programs and files are.
pub(super) const ENVD_PORT: u16 = 49983;
/// The headers that name a sandbox and its port where the host's name does not.
pub(super) const SANDBOX_HEADER: &str = "e2b-sandbox-id";
pub(super) const PORT_HEADER: &str = "e2b-sandbox-port";

/// What an operator decides about the front.
#[derive(Debug, Clone, Default)]
pub struct FrontOptions {
    /// The domain whose names lead to sandboxes.
    pub domain: Option<String>,
    /// The network policy of sandboxes whose clients want the internet.
    pub network: Option<String>,
    /// What sandboxes may ask of the gateway, as far as tokens allow it.
    pub gateway: Vec<String>,
    /// Templates by the names that clients have for them.
    pub aliases: BTreeMap<String, TemplateName>,
    /// Ports are for those with a sandbox's traffic token alone, whatever its maker asks for.
    pub private_ports: bool,
}

/// What every request is answered from.
pub struct Front {
    pub(super) service: Service,
    pub(super) calls: CallContext,
    pub(super) options: FrontOptions,
    /// Places for requests to ports of sandboxes.
    pub(super) ports: Arc<Semaphore>,
    /// Our own API in JSON, where it is served.
    api: Option<Arc<Api>>,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// Sandboxes as such.
    Control,
    /// A port of a sandbox; which sandbox, where the request says.
    Sandbox { id: Option<String>, port: u16 },
}

impl Front {
    /// A front of this service.
    #[must_use]
    pub fn new(
        service: Service,
        authenticator: Arc<Authenticator>,
        audit: Arc<Audit>,
        options: FrontOptions,
    ) -> Self {
        let calls = CallContext::new(&service, authenticator, audit);
        Self { service, calls, options, ports: Arc::new(Semaphore::new(port::PLACES)), api: None }
    }

    /// Has callers of the API told how to reach ports, now that the front is to be served here.
    pub(super) fn announce(&self, address: SocketAddr, tls: bool) {
        let at = PortsAt { address, tls, domain: self.options.domain.clone() };
        self.calls.authenticator.serves_ports(at);
    }

    /// Serves our own API as well.
    #[must_use]
    pub fn with_api(self, api: Arc<Api>) -> Self {
        Self { api: Some(api), ..self }
    }

    /// Answers a request. The connection it came on is among its extensions.
    pub(super) async fn handle(&self, mut request: Request<Body>) -> Response<Body> {
        let (target, request) = match self.target(&request) {
            Ok(target) => {
                request.extensions_mut().insert(target.clone());
                (target, request)
            }
            Err(refusal) => return refusal.into_response(),
        };
        match (target, &self.api) {
            (Target::Control, Some(api)) if Api::has(request.uri().path()) => api.handle(request).await,
            (Target::Control, _) => control::handle(self, request).await,
            (Target::Sandbox { port: ENVD_PORT, .. }, _) => envd::handle(self, request).await,
            (Target::Sandbox { id: Some(id), port: interpreter::PORT }, _)
                if interpreter::answers(&request) =>
            {
                interpreter::handle(self, id, request).await
            }
            (Target::Sandbox { id, port }, _) => {
                port::handle(self, id.as_deref().unwrap_or_default(), port, request).await
            }
        }
    }

    /// What a request is for, by the name of the host it asks, then by its headers, then by its path: signed links
    /// to files carry nothing else.
    fn target(&self, request: &Request<Body>) -> Result<Target, HttpRefusal> {
        let wrong = || HttpRefusal::bad_request("the host or a header names no port of a sandbox");
        let headers = request.headers();
        let text = |name: &str| match headers.get(name).map(|value| value.to_str()) {
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(wrong()),
            None => Ok(None),
        };
        let header_id = text(SANDBOX_HEADER)?;
        let header_port =
            text(PORT_HEADER)?.map(|port| port.parse::<u16>().map_err(|_| wrong())).transpose()?;
        if let Some((port, id)) = self.named_by_host(request)? {
            // Who names two sandboxes is not helped by either.
            if header_id.is_some_and(|other| other != id) || header_port.is_some_and(|other| other != port) {
                return Err(HttpRefusal::bad_request("the host and the headers name different sandboxes"));
            }
            return Ok(Target::Sandbox { id: Some(id), port });
        }
        if let Some(id) = header_id {
            let port = header_port.unwrap_or(ENVD_PORT);
            return Ok(Target::Sandbox { id: Some(id.to_owned()), port });
        }
        let path = request.uri().path();
        let of_envd = path == "/files"
            || path.starts_with("/process.Process/")
            || path.starts_with("/filesystem.Filesystem/");
        Ok(if of_envd { Target::Sandbox { id: None, port: ENVD_PORT } } else { Target::Control })
    }

    /// The port and sandbox of a name `<port>-<sandbox>.<domain>`.
    fn named_by_host(&self, request: &Request<Body>) -> Result<Option<(u16, String)>, HttpRefusal> {
        let Some(domain) = &self.options.domain else { return Ok(None) };
        let authority = match request.uri().authority() {
            Some(authority) => Some(authority.clone()),
            None => match request.headers().get(header::HOST) {
                Some(host) => {
                    let host = Authority::try_from(host.as_bytes());
                    Some(host.map_err(|_| HttpRefusal::bad_request("the host's name cannot be read"))?)
                }
                None => None,
            },
        };
        let Some(authority) = authority else { return Ok(None) };
        let host = authority.host().to_ascii_lowercase();
        let Some(name) = host.strip_suffix(domain.as_str()).and_then(|name| name.strip_suffix('.')) else {
            return Ok(None);
        };
        // `api.<domain>` and whatever else has no port in front.
        let Some((port, id)) = name.split_once('-') else { return Ok(None) };
        Ok(port.parse().ok().map(|port| (port, id.to_owned())))
    }

    /// Begins a call: whoever `shown` lets in makes it, unless it calls too often.
    pub(super) fn admit(
        &self,
        method: &'static str,
        Asking { headers, extensions }: Asking<'_>,
        shown: Result<Admitted, Refused>,
    ) -> Result<Call, HttpRefusal> {
        let connection = ConnectionInfo::of(extensions);
        let mut record = self.calls.begin(method, &connection.peer);
        let admitted = match shown {
            Ok(admitted) => admitted,
            Err(refused) => {
                record.refuse(&refused);
                return Err(HttpRefusal::unauthenticated());
            }
        };
        let caller = admitted.caller.clone();
        match record.admit(admitted, &connection, headers) {
            Ok(standing) => {
                // The one that it was let in as says what the call is part of.
                let caller = record.caller().cloned().unwrap_or(caller);
                Ok(Call { record, caller, standing })
            }
            Err(error) => {
                let refusal = HttpRefusal::from(&error);
                record.settle::<()>(&Err(error), refusal.word());
                Err(refusal)
            }
        }
    }

    /// Begins a call of somebody who need not show who they are. Their connection is no stranger's any more: it may
    /// stay, and bring a body of any size.
    pub(super) fn admit_anyone(&self, method: &'static str, extensions: &Extensions) -> CallRecord {
        let connection = ConnectionInfo::of(extensions);
        connection.admit();
        self.calls.begin(method, &connection.peer)
    }

    /// Begins a call of the control plane: who calls says the API key.
    pub(super) fn admit_key(&self, method: &'static str, parts: &Parts) -> Result<Call, HttpRefusal> {
        let shown = super::key::caller(&self.calls.authenticator, &parts.headers);
        self.admit(method, parts.into(), shown)
    }
}

/// What a request says before its body.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub headers: &'a HeaderMap,
    pub extensions: &'a Extensions,
}

impl<'a> From<&'a Parts> for Asking<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self { headers: &parts.headers, extensions: &parts.extensions }
    }
}

/// A call that was let in.
pub(super) struct Call {
    pub record: CallRecord,
    pub caller: Caller,
    pub standing: Option<Standing>,
}

/// Why a call that was let in is not met: the service says no, or what was asked for makes no sense over HTTP.
#[derive(Debug)]
pub(super) enum Failure {
    Service(ServiceError),
    Http(HttpRefusal),
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<HttpRefusal> for Failure {
    fn from(refusal: HttpRefusal) -> Self {
        Self::Http(refusal)
    }
}

impl Call {
    /// Does the work of a call with one answer, as long as its token is in force, and writes down how it ended.
    pub(super) async fn answer(
        mut self,
        work: impl Future<Output = Result<Response<Body>, Failure>>,
    ) -> Response<Body> {
        let standing = self.standing.take();
        let done = tokio::select! {
            done = work => done,
            () = lost(standing) => {
                return self.revoked();
            }
        };
        self.close(done)
    }

    /// Ends a call whose token is gone.
    pub(super) fn revoked(self) -> Response<Body> {
        self.record.revoked().store(true, Ordering::Release);
        HttpRefusal::unauthenticated().into_response()
    }

    /// Writes down how the call ended.
    pub(super) fn close(mut self, done: Result<Response<Body>, Failure>) -> Response<Body> {
        match done {
            Ok(response) => {
                self.record.settle(&Ok(()), super::refusal::word(response.status()));
                response
            }
            Err(Failure::Http(refusal)) => {
                let reason = match refusal.status.as_u16() {
                    404 | 405 | 501 => "unknown_method",
                    _ => "malformed_request",
                };
                self.record.reject(reason, refusal.word());
                refusal.into_response()
            }
            Err(Failure::Service(error)) => {
                let refusal = HttpRefusal::from(&error);
                self.record.settle::<()>(&Err(error), refusal.word());
                refusal.into_response()
            }
        }
    }
}

/// An answer that is cut off when the token that let its call in is gone. The record of the call goes on in its body.
pub(super) fn revocable(
    response: Response<Body>,
    standing: Option<Standing>,
    revoked: Arc<AtomicBool>,
) -> Response<Body> {
    let Some(standing) = standing else { return response };
    let gone = async move {
        standing.lost().await;
        revoked.store(true, Ordering::Release);
    };
    response.map(|body| Body::new(RevocableBody::new(body, last_word, gone)))
}

/// Waits until the token is no longer in force; for ever where there is none.
pub(super) async fn lost(standing: Option<Standing>) {
    match standing {
        Some(standing) => standing.lost().await,
        None => std::future::pending().await,
    }
}

/// A stream that is cut off is not one that has ended.
fn last_word() -> Result<Frame<bytes::Bytes>, axum::Error> {
    Err(axum::Error::new("the token is no longer in force"))
}
