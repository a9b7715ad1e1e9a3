//! One request of a guest's, from its head to the last byte of the answer.
//!
//! ```text
//! head ──► meant for here? ──► token? ──► operation granted? ──► length, pace, cost? ──► connect ──► answer, streamed
//!            └─no────────────────┴─no──────┴─no───────────────────┴─no─► 4xx              └─no─► 502
//! ```
//!
//! Nothing of a body is read before all of the head is approved, and none of it is kept.

use std::convert::Infallible;
use std::error::Error as _;
use std::fmt;
use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::credential::Credential;
use super::grant::{Bound, Granted, Grants, listed};
use super::headers;
use super::operation::{self, Operation};
use super::purse::today;
use super::scrub::Scrub;
use super::upstream::Connection;
use super::{PORT, asked_service};
use crate::network::denial::{Denial, DenialReason};
use crate::network::dial::Dialer;
use crate::network::name::HostName;

/// How long a program may take to say the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Most bytes of a head.
const MAX_HEAD: usize = 64 * 1024;
/// Most fields of it.
const MAX_FIELDS: usize = 128;

/// Who hears what became of a request.
pub(in crate::network) trait Report: Sync {
    /// Its head is approved, and the service is being connected to.
    fn approved(&self);
    /// It goes to the service.
    fn passed(&self, operation: &str, cost: u64);
    /// It does not, or no further.
    fn refused(&self, denial: Denial);
    /// It would have, and the service cannot be reached.
    fn failed(&self, operation: &str, why: String);
}

/// What one connection is served by.
pub(in crate::network) struct Session<'a> {
    /// What its sandbox may ask for.
    pub(in crate::network) grants: &'a Grants,
    /// How services are reached.
    pub(in crate::network) dialer: &'a Dialer,
    /// The name that the program asked for.
    pub(in crate::network) name: &'a HostName,
    /// The policy in force, for the record.
    pub(in crate::network) policy: &'a str,
    /// Who hears of it.
    pub(in crate::network) report: &'a dyn Report,
}

type Answered = Response<Either<Full<Bytes>, Answer>>;

/// Serves one request. A program that sends no request gets nothing, and nobody hears of it.
pub(in crate::network) async fn serve(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    session: &Session<'_>,
) {
    let service = asked_service(session.name).unwrap_or_default();
    let Some(granted) = session.grants.service(service) else { return };
    let handler = Handler { session, granted };
    let handle = service_fn(|request| async {
        let answered = handler.answer(request).await;
        Ok::<_, Infallible>(answered.unwrap_or_else(|refusal| handler.refuse(&refusal)))
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_FIELDS);
    // What goes wrong is between the program and its request.
    let _ = builder.serve_connection(TokioIo::new(io), handle).await;
}

/// Why a request does not go on.
#[derive(Debug)]
enum Refusal {
    /// By a rule of the gateway's, on behalf of an operation if it is one.
    Denied { reason: DenialReason, operation: Option<String>, retry: Option<Duration> },
    /// Nobody answers.
    Failed { operation: String, why: String, late: bool },
}

impl Refusal {
    fn of(reason: DenialReason) -> Self {
        Self::Denied { reason, operation: None, retry: None }
    }
}

struct Handler<'a> {
    session: &'a Session<'a>,
    granted: &'a Granted,
}

impl Handler<'_> {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answered, Refusal> {
        self.check_target(&request)?;
        let service = &*self.granted.service;
        let credential = service.credential.as_deref();
        if !self.has_token(request.headers()) {
            return Err(Refusal::of(DenialReason::GatewayToken));
        }
        let operation = self.operation(request.method(), request.uri().path())?;
        let label = format!("{}/{}", service.name, operation.name);
        let denied = |reason, retry| Refusal::Denied { reason, operation: Some(label.clone()), retry };
        if request.body().size_hint().lower() > operation.max_body {
            return Err(denied(DenialReason::BodyTooLarge, None));
        }
        if let Some(pace) = &self.granted.pace {
            let taken = pace.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            taken.map_err(|wait| denied(DenialReason::RateLimited, Some(wait)))?;
        }
        let (grants, day) = (self.session.grants, today());
        let tenants =
            |reason, of, retry| Refusal::Denied { reason, operation: Some(format!("{label} ({of})")), retry };
        grants.purse.request(grants.allowance, Instant::now()).map_err(|wait| {
            tenants(DenialReason::RateLimited, "the tenant's requests in a minute", Some(wait))
        })?;
        grants.take(operation.cost, day).map_err(|bound| match bound {
            Bound::Sandbox => tenants(DenialReason::CostSpent, "the sandbox's budget", None),
            Bound::Tenant => tenants(DenialReason::CostSpent, "the tenant's budget of the day", None),
        })?;
        self.session.report.approved();
        let failed = |why: String, late| Refusal::Failed { operation: label.clone(), why, late };
        let connection = service.upstream.connect(self.session.dialer).await.map_err(|error| {
            grants.give_back(operation.cost, day);
            failed(error.to_string(), false)
        })?;
        grants.requests.fetch_add(1, Relaxed);
        self.session.report.passed(&label, operation.cost);

        let secret = credential.map(Credential::secret);
        let (mut head, body) = request.into_parts();
        headers::onward(&mut head.headers, credential.map(Credential::header));
        // So that what comes back can be looked at.
        head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.headers.insert(header::HOST, service.upstream.authority.clone());
        if let (Some(credential), Some(secret)) = (credential, &secret) {
            head.headers.insert(credential.header(), secret.value.clone());
        }
        head.version = Version::HTTP_11;
        head.uri = onward_target(&head.uri).ok_or_else(|| Refusal::of(DenialReason::HostMismatch))?;
        let most = usize::try_from(operation.max_body).unwrap_or(usize::MAX);
        let onward = Request::from_parts(head, Limited::new(body, most));

        let Connection { mut sender, driver } = connection;
        let response = match timeout(service.timeout, sender.send_request(onward)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if is_over(&error) => return Err(denied(DenialReason::BodyTooLarge, None)),
            Ok(Err(_)) => return Err(failed("the request or its answer broke off".to_owned(), false)),
            Err(_) => return Err(failed("the answer did not begin in time".to_owned(), true)),
        };
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(failed("it answered with another protocol".to_owned(), false));
        }
        head.version = Version::HTTP_11;
        headers::back(&mut head.headers, secret.as_ref().map(|secret| &secret.bare[..]));
        let answer = Answer {
            inner: body,
            scrub: secret.map(|secret| Scrub::new(&secret.bare)),
            idle: service.timeout,
            late: Box::pin(tokio::time::sleep(service.timeout)),
            ended: false,
            _driver: driver,
        };
        Ok(Response::from_parts(head, Either::Right(answer)))
    }

    /// The request is for this service, and is nothing but a request.
    fn check_target(&self, request: &Request<Incoming>) -> Result<(), Refusal> {
        let headers = request.headers();
        if *request.method() == Method::CONNECT || headers.contains_key(header::UPGRADE) {
            return Err(Refusal::of(DenialReason::Tunnel));
        }
        // An absolute target names a host of its own.
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (request.uri().authority(), hosts.next(), hosts.next()) {
            (None, Some(host), None) => host.to_str().unwrap_or_default(),
            _ => return Err(Refusal::of(DenialReason::HostMismatch)),
        };
        let name = host.strip_suffix(&format!(":{PORT}")).unwrap_or(host);
        match HostName::parse(name) {
            Ok(name) if name == *self.session.name => Ok(()),
            _ => Err(Refusal::of(DenialReason::HostMismatch)),
        }
    }

    /// Whether the sandbox's token is in one of the headers that programs send keys in.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let token = &self.session.grants.token;
        let credential = self.granted.service.credential.as_deref();
        let own = credential.map(Credential::header);
        let names = headers::TOKEN_HEADERS.iter().chain(own);
        names.flat_map(|name| headers.get_all(name)).any(|value| {
            let value = value.as_bytes();
            let bearer =
                value.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
            let bearer = bearer.map_or(value, |(_, bare)| bare);
            token.is_of(bearer) || credential.is_some_and(|credential| token.is_of(credential.bare(value)))
        })
    }

    fn operation(&self, method: &Method, path: &str) -> Result<&Operation, Refusal> {
        let found = operation::find(&self.granted.service.operations, method, path);
        found
            .filter(|operation| self.granted.operations.contains(&operation.name))
            .ok_or_else(|| Refusal::of(DenialReason::NotGranted))
    }

    /// Says so to the program, and to who hears of it.
    fn refuse(&self, refusal: &Refusal) -> Answered {
        let host = self.session.name.to_string();
        let service = &self.granted.service.name;
        let granted = self.granted.names();
        match refusal {
            Refusal::Denied { reason, operation, retry } => {
                let rule = operation.clone().unwrap_or_else(|| listed(&granted));
                let policy = self.session.policy.to_owned();
                let denial = Denial { reason: *reason, policy, rule: Some(rule), host, port: PORT };
                let body = serde_json::json!({
                    "error": "gateway_denied",
                    "reason": reason,
                    "message": denial.message(),
                    "service": service,
                    "operations": granted,
                });
                self.session.report.refused(denial);
                let mut response = json(status(*reason), &body);
                let headers = response.headers_mut();
                if let Ok(word) = HeaderValue::from_str(reason.as_str()) {
                    headers.insert("x-rekindle-denied", word);
                }
                if let Some(wait) = retry {
                    // Rounded up: who comes back then is let in.
                    headers.insert(header::RETRY_AFTER, (wait.as_secs() + 1).into());
                }
                response
            }
            Refusal::Failed { operation, why, late } => {
                let message = format!("the service {service} cannot be reached: {why}");
                let body = serde_json::json!({
                    "error": "gateway_unreachable", "message": message, "service": service
                });
                self.session.report.failed(operation, why.clone());
                json(if *late { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY }, &body)
            }
        }
    }
}

fn status(reason: DenialReason) -> StatusCode {
    match reason {
        DenialReason::GatewayToken => StatusCode::UNAUTHORIZED,
        // Clients do not try these again by themselves, as they do with 429.
        DenialReason::CostSpent => StatusCode::PAYMENT_REQUIRED,
        DenialReason::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        DenialReason::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    }
}

fn json(status: StatusCode, body: &serde_json::Value) -> Answered {
    let mut response = Response::new(Either::Left(Full::from(format!("{body}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The path and query alone, as they were approved.
fn onward_target(uri: &Uri) -> Option<Uri> {
    uri.path_and_query().map(|target| Uri::from(target.clone()))
}

/// Whether a request ended because its body was too long.
fn is_over(error: &hyper::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// An answer on its way to the program.
struct Answer {
    inner: Incoming,
    scrub: Option<Scrub>,
    idle: Duration,
    late: Pin<Box<Sleep>>,
    ended: bool,
    _driver: AbortOnDropHandle<()>,
}

/// Why an answer ends before its end.
#[derive(Debug)]
enum Broken {
    Upstream,
    Late,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Upstream => "the service broke off",
            Self::Late => "the service said nothing for too long",
        })
    }
}

impl std::error::Error for Broken {}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        while !this.ended {
            let piece = match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Pending => {
                    let late = this.late.as_mut().poll(context);
                    return late.map(|()| Some(Err(Broken::Late)));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Broken::Upstream))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    // Nothing follows trailers, which are not passed on.
                    Err(_) => {
                        this.ended = true;
                        break;
                    }
                },
                Poll::Ready(None) => {
                    this.ended = true;
                    break;
                }
            };
            this.late.as_mut().reset(Instant::now() + this.idle);
            let piece = match &mut this.scrub {
                Some(scrub) => scrub.push(piece),
                None => piece,
            };
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
        let rest = this.scrub.as_mut().map(Scrub::finish).filter(|rest| !rest.is_empty());
        Poll::Ready(rest.map(|rest| Ok(Frame::data(rest))))
    }

    fn is_end_stream(&self) -> bool {
        let held = self.scrub.as_ref().is_some_and(Scrub::holds);
        !held && (self.ended || self.inner.is_end_stream())
    }

    /// As many bytes go back as came.
    fn size_hint(&self) -> SizeHint {
        let held = self.scrub.as_ref().is_some_and(Scrub::holds);
        if held { SizeHint::default() } else { self.inner.size_hint() }
    }
}
