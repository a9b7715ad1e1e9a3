//! Callers that want too much at once: streams by the thousand, a file that nobody has room for.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rekindle::config::tokens::Scope;
use rekindle_test_support::wait::in_time;
use serde_json::json;
use tokio::net::TcpStream;

use crate::data_plane::{Sandbox, framed, raw};
use crate::place::Place;

const CONNECTIONS: usize = 16;
/// Of each connection, fewer than it may have at a time.
const STREAMS: usize = 125;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_streams_of_one_caller_leave_others_alone() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (pid, _events) = sandbox.start("sleep 600000").await;
    let other = place.token("other", "other", &[Scope::Create, Scope::Exec, Scope::Files]).await;
    let message = framed(&json!({"process": {"pid": pid}}));
    let headers = sandbox.headers(&[("content-type", "application/connect+json")]);
    let (mut connections, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(place.address).await.expect("connected");
        let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = made.expect("a connection");
        connections.push(tokio::spawn(connection));
        for _ in 0..STREAMS {
            let mut request = Request::post("http://sandboxes.test/process.Process/Connect");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Full::new(Bytes::from(message.clone()))).expect("a request");
            let mut sender = sender.clone();
            streams.push(tokio::spawn(async move {
                let mut answer = sender.send_request(request).await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::OK);
                // It has begun when it says so.
                let first = answer.body_mut().frame().await.expect("a frame").expect("read");
                assert!(first.is_data());
                answer
            }));
        }
    }
    let mut open = Vec::new();
    for stream in streams {
        open.push(in_time("a stream", stream).await.expect("open"));
    }
    assert_eq!(open.len(), CONNECTIONS * STREAMS);
    let listed = in_time("another's call", place.get_as(&other, "/v2/sandboxes")).await;
    assert_eq!((listed.status, listed.body), (StatusCode::OK, json!([])));
    let wanted = json!({"templateID": "base"});
    let made = in_time("another's sandbox", place.post_as(&other, "/sandboxes", &wanted)).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(sandbox.pids().await, [pid], "its own calls go on too");
    drop(open);
    connections.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(sandbox.pids().await, [pid], "and the program does");
    let mut again = sandbox.stream("process.Process/Connect", &json!({"process": {"pid": pid}}), &[]).await;
    assert_eq!(again.event().await.expect("an event")["start"]["pid"], pid);
}

#[tokio::test]
async fn a_file_that_is_said_to_be_huge_is_refused_before_it_is_sent() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let (id, token) = (&sandbox.id, &sandbox.token);
    let size: u64 = 10 << 30;
    let head = format!(
        "POST /files?path=huge HTTP/1.1\r\nhost: a\r\ne2b-sandbox-id: {id}\r\nx-access-token: {token}\r\n\
         content-type: application/octet-stream\r\ncontent-length: {size}\r\n\r\nthe first bytes"
    );
    // The rest may still come: nothing but its length speaks against it.
    let answer = in_time("an answer", raw(&place, head.as_bytes(), false)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("a file may have 1073741824 bytes here"), "{answer}");
    let listed = sandbox.done("filesystem.Filesystem/ListDir", &json!({"path": ".", "depth": 1})).await;
    assert!(!listed.to_string().contains("huge"), "{listed}");
}
