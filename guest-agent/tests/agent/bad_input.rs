//! A host that breaks the rules gets a typed error or a closed stream; the agent neither dies, hangs nor grows.

use std::time::Duration;

use rekindle::agent::AgentClient;
use rekindle_protocol::mux::{self, Opener, Side, Stream};
use rekindle_protocol::wire::{self, ErrorCode, Request, Response, Version, request::Op, response::Reply};
use rekindle_protocol::{VERSION, frame, preamble};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

use crate::agent;
use crate::harness::{Agent, SOON, Setup, Transport};

/// The answer to a hello of this version, and a session if the agent starts one.
async fn introduced(stream: UnixStream, version: Option<Version>) -> (Reply, Opener) {
    let hello = wire::HelloRequest { version, program: "other".to_owned() };
    let (answer, stream) = preamble::initiate(stream, hello, Instant::now() + SOON).await.expect("an answer");
    let (opener, _, driver) = mux::session(stream, Side::Host);
    tokio::spawn(driver);
    (answer, opener)
}

/// A session.
pub async fn greeted(stream: UnixStream) -> Opener {
    let (answer, opener) = introduced(stream, Some(VERSION)).await;
    assert!(matches!(answer, Reply::Hello(_)));
    opener
}

async fn send(opener: &Opener, bytes: &[u8]) -> Stream {
    let mut stream = opener.open().await.expect("a stream");
    // The agent may refuse half-way.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    stream
}

/// The answer on a stream; `None` when it is closed without one.
async fn answer(mut stream: Stream) -> Option<Reply> {
    let answer = tokio::time::timeout(SOON, frame::read::<Response>(&mut stream)).await.expect("no hang");
    answer.ok().flatten().and_then(|response| response.reply)
}

async fn ask(opener: &Opener, op: Op) -> Option<Reply> {
    let request = frame::encode(&Request { op: Some(op) }).expect("it fits");
    answer(send(opener, &request).await).await
}

fn code(reply: Option<Reply>) -> ErrorCode {
    match reply {
        Some(Reply::Error(error)) => error.code(),
        other => panic!("not an error: {other:?}"),
    }
}

async fn still_works(agent: &mut Agent) {
    assert!(agent.is_running(), "the agent lives");
    agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
    agent.answers().await;
}

fn listening() -> Setup {
    Setup { transport: Transport::Listen, ..Setup::default() }
}

#[tokio::test]
async fn another_major_version_is_refused_by_name() {
    let mut agent = agent!(listening());
    for version in [None, Some(Version { major: 0, minor: 9 }), Some(Version { major: 77, minor: 0 })] {
        let (Reply::Error(error), _) = introduced(agent.dial().await, version).await else {
            panic!("{version:?} was accepted")
        };
        assert_eq!(error.code(), ErrorCode::VersionMismatch);
        assert!(error.message.contains(&format!("{}.{}", VERSION.major, VERSION.minor)), "{}", error.message);
    }
    let newer = Version { major: VERSION.major, minor: VERSION.minor + 9 };
    let (answer, opener) = introduced(agent.dial().await, Some(newer)).await;
    let Reply::Hello(hello) = answer else { panic!("a newer minor version is welcome") };
    assert_eq!(hello.program, concat!("rekindle-agent ", env!("CARGO_PKG_VERSION")));
    let again = Op::Hello(wire::HelloRequest { version: Some(VERSION), program: String::new() });
    assert_eq!(code(ask(&opener, again).await), ErrorCode::InvalidArgument, "hello is said once");
    drop(opener);
    still_works(&mut agent).await;
}

#[tokio::test]
async fn nothing_is_answered_without_a_hello() {
    let mut agent = agent!(listening());
    let early = [
        Op::Ping(Default::default()),
        Op::Execute(crate::harness::shell("echo early > early")),
        Op::Stat(wire::StatRequest { path: "/".into(), follow: true, user: String::new() }),
        Op::Upload(wire::UploadRequest { path: "early".into(), ..Default::default() }),
        Op::Poweroff(Default::default()),
    ];
    // On a connection whose hello was refused, and in a preamble instead of hello.
    let (_, opener) = introduced(agent.dial().await, None).await;
    let mut rude = agent.dial().await;
    for op in early {
        let mut opening = bytes::BytesMut::new();
        preamble::append(&mut opening, [7; 16], &Request { op: Some(op.clone()) });
        rude.write_all(&opening).await.expect("sent");
        let request = frame::encode(&Request { op: Some(op) }).expect("it fits");
        let mut stream = send(&opener, &request).await;
        let mut silence = [0];
        let heard = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut silence)).await;
        assert!(!matches!(heard, Ok(Ok(1..))), "an answer without a hello");
    }
    rude.shutdown().await.expect("closed");
    let mut heard = Vec::new();
    rude.read_to_end(&mut heard).await.expect("read");
    assert!(heard.is_empty(), "{heard:?}");
    drop(opener);
    still_works(&mut agent).await;
    assert!(!agent.home.join("early").exists());
}

#[tokio::test]
async fn messages_that_are_none_get_a_typed_error_or_a_closed_stream() {
    let mut agent = agent!(listening());
    let opener = greeted(agent.dial().await).await;
    let unknown = frame::encode(&wire::Response { reply: Some(Reply::Listing(Default::default())) });
    let unknown_operation = [0, 0, 0, 3, 0xfa, 0x7f, 0];
    assert_eq!(code(answer(send(&opener, &unknown_operation).await).await), ErrorCode::UnknownRequest);
    assert_eq!(code(answer(send(&opener, &[0, 0, 0, 0]).await).await), ErrorCode::UnknownRequest);
    let bad: [&[u8]; 6] = [
        &[0xff; 100],
        &[0xff, 0xff, 0xff, 0xff],
        &[0, 0x10, 0, 1],
        &[0, 0, 0, 3, 0xff, 0xff, 0xff],
        &[0, 0, 0, 4, 0x2a, 0x7f, 0x0a, 0x7f],
        &unknown.expect("it fits"),
    ];
    for bytes in bad {
        let reply = answer(send(&opener, bytes).await).await;
        assert!(matches!(reply, None | Some(Reply::Error(_))), "{bytes:?}: {reply:?}");
    }
    assert!(
        matches!(ask(&opener, Op::Ping(Default::default())).await, Some(Reply::Pong(_))),
        "the session lives"
    );
    drop(opener);
    still_works(&mut agent).await;
}

#[tokio::test]
async fn half_a_frame_and_then_silence_holds_up_nobody() {
    let mut agent = agent!(listening());
    let opener = greeted(agent.dial().await).await;
    let mut held = Vec::new();
    for bytes in [&[0u8][..], &[0, 0, 0], &[0, 0, 0, 9], &[0, 0, 0, 9, 1, 2, 3], &[0, 0x10, 0, 0, 42]] {
        for _ in 0..20 {
            held.push(send(&opener, bytes).await);
        }
    }
    let pong = ask(&opener, Op::Ping(Default::default())).await;
    assert!(matches!(pong, Some(Reply::Pong(_))), "{pong:?}");
    // In the middle of an upload and of an execution's input as well.
    let request =
        Request { op: Some(Op::Upload(wire::UploadRequest { path: "half".into(), ..Default::default() })) };
    let mut stream = send(&opener, &frame::encode(&request).expect("it fits")).await;
    stream.write_all(&[0, 0, 1, 0, 1, 2]).await.expect("half a part");
    held.push(stream);
    let request = Request { op: Some(Op::Execute(crate::harness::shell("sleep 1000"))) };
    let mut stream = send(&opener, &frame::encode(&request).expect("it fits")).await;
    stream.write_all(&[0, 0, 1, 0, 1, 2]).await.expect("half an input");
    held.push(stream);
    assert!(matches!(ask(&opener, Op::Ping(Default::default())).await, Some(Reply::Pong(_))));
    drop((held, opener));
    still_works(&mut agent).await;
    rekindle_test_support::wait::until("the half file is gone", || !has_entries(&agent)).await;
}

fn has_entries(agent: &Agent) -> bool {
    std::fs::read_dir(&agent.home).expect("the home").next().is_some()
}

#[tokio::test]
async fn input_beyond_the_limit_ends_the_operation_it_belongs_to() {
    let mut agent = agent!(listening());
    let opener = greeted(agent.dial().await).await;
    let part = wire::UploadPart {
        part: Some(wire::upload_part::Part::Chunk(wire::Chunk { data: vec![0; 300 * 1024].into() })),
    };
    let request =
        Request { op: Some(Op::Upload(wire::UploadRequest { path: "big".into(), ..Default::default() })) };
    let mut stream = send(&opener, &frame::encode(&request).expect("it fits")).await;
    let _ = frame::write(&mut stream, &part).await;
    assert_eq!(code(answer(stream).await), ErrorCode::TooLarge);

    let execute = wire::ExecuteRequest {
        stdin: wire::Stdin::Live.into(),
        ..crate::harness::shell("cat >/dev/null; echo end")
    };
    let request = Request { op: Some(Op::Execute(execute)) };
    let mut stream = send(&opener, &frame::encode(&request).expect("it fits")).await;
    let _ =
        frame::write(&mut stream, &wire::ExecuteInput { data: vec![0; 300 * 1024].into(), eof: true }).await;
    let mut replies = Vec::new();
    while let Ok(Ok(Some(response))) = tokio::time::timeout(SOON, frame::read::<Response>(&mut stream)).await
    {
        replies.push(response.reply);
    }
    let succeeded = replies.iter().any(|reply| {
        matches!(reply, Some(Reply::Result(result)) if result.outcome == Some(wire::execute_result::Outcome::Exited(0)))
    });
    assert!(!succeeded, "a rule was broken: {replies:?}");
    drop(opener);
    still_works(&mut agent).await;
    assert!(!has_entries(&agent));
}

#[tokio::test]
async fn garbage_instead_of_a_session_is_survived_without_growth() {
    let mut agent = agent!(listening());
    agent.answers().await;
    let before = agent.status_kib("VmRSS:");
    agent.reset_peak();
    let mut noise = vec![0u8; 1 << 20];
    for round in 0..20u8 {
        getrandom::fill(&mut noise).expect("random bytes");
        let mut stream = agent.dial().await;
        if round % 2 == 0 {
            // First in good order, then not.
            let hello = wire::HelloRequest { version: Some(VERSION), program: String::new() };
            let mut opening = bytes::BytesMut::new();
            preamble::append(&mut opening, [round; 16], &Request { op: Some(Op::Hello(hello)) });
            stream.write_all(&opening).await.expect("sent");
        }
        for _ in 0..4 {
            if stream.write_all(&noise).await.is_err() {
                break;
            }
        }
        stream.shutdown().await.ok();
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.expect("it is closed");
        assert!(rest.len() < 1 << 20, "{} bytes of answer to garbage", rest.len());
    }
    let growth = agent.status_kib("VmHWM:").saturating_sub(before);
    assert!(growth <= 8 * 1024, "the agent grew by {growth} KiB");
    still_works(&mut agent).await;
}

#[tokio::test]
async fn a_storm_of_streams_that_say_nothing_is_bounded() {
    let mut agent = agent!(listening());
    let before = agent.status_kib("VmRSS:");
    for _ in 0..5 {
        let opener = greeted(agent.dial().await).await;
        let mut held = Vec::new();
        for _ in 0..600 {
            match tokio::time::timeout(Duration::from_millis(200), opener.open()).await {
                Ok(Ok(mut stream)) => {
                    let _ = stream.write_all(&[0]).await;
                    held.push(stream);
                }
                // The multiplexer has had enough, of this stream or of the session.
                Ok(Err(_)) | Err(_) => break,
            }
        }
    }
    still_works(&mut agent).await;
    let growth = agent.status_kib("VmRSS:").saturating_sub(before);
    assert!(growth <= 16 * 1024, "the agent grew by {growth} KiB");
}
