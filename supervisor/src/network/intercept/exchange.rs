//! One request on a connection that is read: it goes to its server and is recorded, or is answered from a cassette.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio_util::io::ReaderStream;

use super::body::{self, Answer, Broken, Hashed, Passed, Record};
use super::headers;
use super::interception::Interception;
use super::upstream::{Connection, Upstream};
use crate::network::cassette::{CassetteName, Entry, Key, NotRecorded, Part, Replay};
use crate::network::denial::{Denial, DenialReason};
use crate::network::journal::{CassetteTrouble, Journal};

/// Where answers come from.
pub(super) enum Source<'a> {
    /// The server; what it answers is recorded.
    Server {
        upstream: Upstream<'a>,
        /// A connection that was made before the program was let through.
        ready: Mutex<Option<Connection>>,
        cassette: &'a CassetteName,
        interception: &'a Arc<Interception>,
    },
    /// A cassette, and nothing else.
    Cassette { replay: Arc<Replay>, cassette: &'a CassetteName },
}

/// The requests of one connection.
pub(super) struct Exchange<'a> {
    pub(super) source: Source<'a>,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    pub(super) host: String,
    pub(super) port: u16,
    /// What a refusal of one is.
    pub(super) refusal: Denial,
    /// A refusal that was told.
    pub(super) refused: Mutex<Option<Denial>>,
    /// Which is told of what goes wrong with the cassette.
    pub(super) journal: Arc<Journal>,
}

impl Exchange<'_> {
    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        match &self.source {
            Source::Server { upstream, ready, cassette, interception } => {
                let ready = ready.lock().unwrap_or_else(PoisonError::into_inner).take();
                let connection = match ready {
                    Some(connection) => Ok(connection),
                    None => upstream.connect().await.map_err(|error| error.to_string()),
                };
                let recorder = Recorder::new(interception, &self.journal, cassette, self.key(&request));
                match connection {
                    Ok(connection) => {
                        send(connection, request, recorder).await.unwrap_or_else(|why| self.unreachable(why))
                    }
                    Err(why) => self.unreachable(&why),
                }
            }
            Source::Cassette { replay, cassette } => self.replay(replay, cassette, request).await,
        }
    }

    /// What finds a request again, but for the digest of its body.
    fn key(&self, request: &Request<Incoming>) -> Key {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let range = request.headers().get(header::RANGE);
        Key {
            method: request.method().to_string(),
            scheme: self.scheme.to_owned(),
            host: self.host.clone(),
            port: self.port,
            target: target.to_owned(),
            range: range.map(|range| String::from_utf8_lossy(range.as_bytes()).into_owned()),
            request_sha256: String::new(),
        }
    }

    async fn replay(
        &self,
        replay: &Replay,
        cassette: &CassetteName,
        request: Request<Incoming>,
    ) -> Response<Answer> {
        let mut key = self.key(&request);
        let asked = format!("{} {}", key.method, key.target);
        // One that breaks off is not answered to anybody.
        key.request_sha256 = body::digest(request.into_body()).await.unwrap_or_default();
        let Some((entry, blob)) = replay.next(&key) else { return self.miss(&asked) };
        match replayed(entry, blob, key.method == Method::HEAD.as_str()).await {
            Some(response) => response,
            None => {
                let (cassette, why) = (cassette.as_str(), "a body of a cassette is not there any more");
                self.journal.cassette_trouble(&CassetteTrouble { cassette, host: &self.host, why });
                self.miss(&asked)
            }
        }
    }

    /// There is no answer: a denial as any other, which says for which request.
    fn miss(&self, asked: &str) -> Response<Answer> {
        let denial = self.refusal.clone();
        let mut told: serde_json::Value = serde_json::from_str(&denial.json()).unwrap_or_default();
        if let Some(fields) = told.as_object_mut() {
            fields.insert("request".to_owned(), asked.into());
        }
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(denial);
        let mut response = last(StatusCode::FORBIDDEN, &told);
        let word = HeaderValue::from_static(DenialReason::NotRecorded.as_str());
        response.headers_mut().insert("x-rekindle-denied", word);
        response
    }

    fn unreachable(&self, why: &str) -> Response<Answer> {
        let message = format!("{}:{}: {why}", self.host, self.port);
        let told = serde_json::json!({ "error": "network_unreachable", "message": message });
        last(StatusCode::BAD_GATEWAY, &told)
    }
}

/// A response after which the connection ends.
fn last(status: StatusCode, told: &serde_json::Value) -> Response<Answer> {
    let mut response = Response::new(body::whole(format!("{told}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Sends a request to its server, and its answer back.
async fn send(
    connection: Connection,
    request: Request<Incoming>,
    mut recorder: Recorder,
) -> Result<Response<Answer>, &'static str> {
    let Connection { mut sender, driver } = connection;
    let (mut head, body) = request.into_parts();
    headers::onward(&head.method, &mut head.headers);
    head.version = Version::HTTP_11;
    let (body, passed) = Hashed::new(body);
    let response = sender.send_request(Request::from_parts(head, body)).await;
    let response = response.map_err(|_| "the request or its answer broke off")?;
    let (mut head, body) = response.into_parts();
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("it answered with another protocol");
    }
    head.version = Version::HTTP_11;
    headers::back(&mut head.headers);
    let bodiless = body.is_end_stream();
    recorder.passed = passed;
    recorder.status = head.status.as_u16();
    recorder.headers = headers::recorded(&head.headers, bodiless);
    let answer = match recorder.part().await {
        // Nobody would wait for the end of a body that is none.
        Some(part) if bodiless => {
            let _ = recorder.finish(part).await;
            body::whole("")
        }
        Some(part) => body::recorded(body, part, recorder, driver),
        None => {
            let stream = body.into_data_stream().map(move |piece| {
                let _held = &driver;
                piece.map(Frame::data).map_err(|_| Broken)
            });
            StreamBody::new(stream).boxed_unsync()
        }
    };
    Ok(Response::from_parts(head, answer))
}

/// A recorded answer; nothing when its body is not there as it was.
async fn replayed(entry: &Entry, blob: PathBuf, head: bool) -> Option<Response<Answer>> {
    let mut response = Response::new(body::whole(""));
    *response.status_mut() = StatusCode::from_u16(entry.status).ok()?;
    *response.headers_mut() = headers::replayed(&entry.headers);
    let bodiless = head || matches!(entry.status, 204 | 304);
    if bodiless {
        return Some(response);
    }
    let file = tokio::fs::File::open(blob).await.ok()?;
    if file.metadata().await.ok()?.len() != entry.bytes {
        return None;
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, entry.bytes.into());
    if entry.bytes > 0 {
        let stream = ReaderStream::new(file).map(|piece| piece.map(Frame::data).map_err(|_| Broken));
        *response.body_mut() = StreamBody::new(stream).boxed_unsync();
    }
    Some(response)
}

/// Writes one exchange into a cassette.
struct Recorder {
    interception: Arc<Interception>,
    journal: Arc<Journal>,
    cassette: CassetteName,
    key: Key,
    passed: Passed,
    status: u16,
    headers: Vec<(String, String)>,
}

impl Recorder {
    fn new(
        interception: &Arc<Interception>,
        journal: &Arc<Journal>,
        cassette: &CassetteName,
        key: Key,
    ) -> Self {
        Self {
            interception: Arc::clone(interception),
            journal: Arc::clone(journal),
            cassette: cassette.clone(),
            key,
            passed: Passed::default(),
            status: 0,
            headers: Vec::new(),
        }
    }

    /// Where the body goes; nothing when there is no room.
    async fn part(&self) -> Option<Part> {
        let (interception, cassette) = (Arc::clone(&self.interception), self.cassette.clone());
        let begun = tokio::task::spawn_blocking(move || interception.cassettes.part(&cassette)).await;
        match begun.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(part) => Some(part),
            Err(error) => {
                self.give_up(&error.into());
                None
            }
        }
    }
}

impl Record for Recorder {
    async fn finish(self, part: Part) -> Result<(), NotRecorded> {
        let Some((sha256, bytes)) = self.passed.all() else {
            self.give_up(&NotRecorded::Unfinished);
            return Err(NotRecorded::Unfinished);
        };
        let key = Key { request_sha256: sha256, ..self.key.clone() };
        let finished = part.finish(key, bytes, self.status, self.headers.clone()).await;
        if let Err(why) = &finished {
            self.give_up(why);
        }
        finished
    }

    fn give_up(&self, why: &NotRecorded) {
        let (cassette, host) = (self.cassette.as_str(), self.key.host.as_str());
        let why = format!("an exchange is not recorded: {why}");
        self.journal.cassette_trouble(&CassetteTrouble { cassette, host, why: &why });
    }
}
