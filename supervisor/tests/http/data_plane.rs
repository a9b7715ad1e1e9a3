//! A client of one sandbox's programs and files, on the wire as the SDKs are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rekindle_test_support::wait::in_time;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::place::{Answer, Place};

/// A sandbox, and what opens it.
pub struct Sandbox<'a> {
    pub place: &'a Place,
    pub id: String,
    pub token: String,
}

impl<'a> Sandbox<'a> {
    pub async fn new(place: &'a Place) -> Self {
        let (id, made) = place.sandbox(json!({})).await;
        let token = made["envdAccessToken"].as_str().expect("a token").to_owned();
        Self { place, id, token }
    }

    pub fn headers<'b>(&'b self, more: &[(&'b str, &'b str)]) -> Vec<(&'b str, &'b str)> {
        [&[("e2b-sandbox-id", self.id.as_str()), ("x-access-token", self.token.as_str())], more].concat()
    }

    /// A call with one answer.
    pub async fn unary(&self, method: &str, message: &Value) -> Answer {
        let headers =
            self.headers(&[("content-type", "application/json"), ("connect-protocol-version", "1")]);
        self.place.ask("POST", &format!("/{method}"), &headers, message.to_string()).await
    }

    /// A call with one answer, which must come.
    pub async fn done(&self, method: &str, message: &Value) -> Value {
        let answer = self.unary(method, message).await;
        assert_eq!(answer.status, StatusCode::OK, "{method} {message}: {answer:?}");
        answer.body
    }

    /// A call with one answer that must be refused so.
    pub async fn refused(&self, method: &str, message: &Value, code: &str) -> String {
        let answer = self.unary(method, message).await;
        assert_eq!(answer.body["code"], code, "{method} {message}: {answer:?}");
        answer.body["message"].as_str().expect("a message").to_owned()
    }

    /// A call with a stream of answers.
    pub async fn stream(&self, method: &str, message: &Value, more: &[(&str, &str)]) -> Events {
        self.stream_raw(method, framed(message), more).await
    }

    pub async fn stream_raw(&self, method: &str, body: Vec<u8>, more: &[(&str, &str)]) -> Events {
        let headers = self.headers(&[&[("content-type", "application/connect+json")], more].concat());
        let (status, body) =
            in_time("an answer", open(self.place, &format!("/{method}"), &headers, body)).await;
        Events { status, body, buffer: BytesMut::new() }
    }

    /// Starts a program whose input can be written to.
    pub async fn start(&self, line: &str) -> (u64, Events) {
        self.start_with(json!({"process": process(line)}), &[]).await
    }

    pub async fn start_with(&self, message: Value, headers: &[(&str, &str)]) -> (u64, Events) {
        let mut events = self.stream("process.Process/Start", &message, headers).await;
        let first = events.event().await.expect("an event");
        (first["start"]["pid"].as_u64().expect("a pid"), events)
    }

    pub async fn pids(&self) -> Vec<u64> {
        let listed = self.done("process.Process/List", &json!({})).await;
        let processes = listed["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().map(|process| process["pid"].as_u64().expect("a pid")).collect()
    }
}

/// A line of words for the fake guest.
pub fn process(line: &str) -> Value {
    let mut words = line.split(' ');
    json!({"cmd": words.next(), "args": words.collect::<Vec<_>>(), "envs": {}})
}

pub fn framed(message: &Value) -> Vec<u8> {
    let message = message.to_string().into_bytes();
    [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat()
}

async fn open(place: &Place, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (StatusCode, Incoming) {
    let stream = TcpStream::connect(place.address).await.expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let body = Full::new(Bytes::from(body));
    let mut request = Request::builder().method("POST").uri(path).body(body).expect("a request");
    request.headers_mut().insert("host", HeaderValue::from_static("sandboxes.test"));
    for (name, value) in headers {
        let name: HeaderName = name.parse().expect("a name");
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    let answer = sender.send_request(request).await.expect("an answer");
    (answer.status(), answer.into_body())
}

/// The events of a program. Dropping them closes the connection.
#[derive(Debug)]
pub struct Events {
    pub status: StatusCode,
    body: Incoming,
    buffer: BytesMut,
}

/// A call of any kind of service, with a stream of answers.
pub async fn call_stream(place: &Place, path: &str, body: Vec<u8>, headers: &[(&str, &str)]) -> Events {
    let headers = [&[("content-type", "application/connect+json")], headers].concat();
    let (status, body) = in_time("an answer", open(place, path, &headers, body)).await;
    Events { status, body, buffer: BytesMut::new() }
}

/// How a stream came to its end.
#[derive(Debug, PartialEq)]
pub enum Ended {
    /// With its last frame.
    Whole(Value),
    /// Without it.
    Cut,
}

impl Events {
    /// The next event, or how the stream ended.
    pub async fn next(&mut self) -> Result<Value, Ended> {
        in_time("a frame", async {
            loop {
                if let Some(head) = self.buffer.first_chunk::<5>() {
                    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                    let flags = head[0];
                    if self.buffer.len() >= 5 + length {
                        let frame = self.buffer.split_to(5 + length);
                        let message = serde_json::from_slice(&frame[5..]).expect("JSON");
                        return if flags == 2 { Err(Ended::Whole(message)) } else { Ok(message) };
                    }
                }
                match self.body.frame().await {
                    Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().expect("data")),
                    Some(Err(_)) | None => return Err(Ended::Cut),
                }
            }
        })
        .await
    }

    pub async fn event(&mut self) -> Result<Value, Ended> {
        self.next().await.map(|message| message["event"].clone())
    }

    /// Everything until the end: output of both streams and the terminal, the end, and how the stream ended.
    pub async fn rest(mut self) -> (Vec<u8>, Option<Value>, Ended) {
        let (mut output, mut end) = (Vec::new(), None);
        loop {
            match self.event().await {
                Ok(event) => {
                    for stream in ["stdout", "stderr", "pty"] {
                        if let Some(data) = event["data"][stream].as_str() {
                            output.extend(STANDARD.decode(data).expect("base64"));
                        }
                    }
                    if event["end"].is_object() {
                        assert!(end.replace(event["end"].clone()).is_none(), "one end");
                    }
                }
                Err(ended) => return (output, end, ended),
            }
        }
    }

    /// The error that the stream ends with.
    pub async fn error(self) -> (String, String) {
        match self.rest().await.2 {
            Ended::Whole(end) => {
                let text = |name: &str| end["error"][name].as_str().unwrap_or_default().to_owned();
                (text("code"), text("message"))
            }
            Ended::Cut => panic!("the stream was cut"),
        }
    }
}

/// Sends bytes as they are, closes its side where asked to, and returns all that is answered.
pub async fn raw(place: &Place, bytes: &[u8], close: bool) -> String {
    let mut stream = TcpStream::connect(place.address).await.expect("connected");
    stream.write_all(bytes).await.expect("sent");
    if close {
        stream.shutdown().await.expect("closed");
    }
    let mut answer = Vec::new();
    // A server that has had enough may reset.
    let _ = in_time("an answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}
