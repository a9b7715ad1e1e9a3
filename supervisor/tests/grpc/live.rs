//! Live executions: output as it comes, input, signals, terminals, and callers that vanish.

use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{self, ErrorReason, execute_event::Event, execute_input::Input};
use rekindle_api::{Code, Status, Streaming, client::Client};
use rekindle_test_support::wait::{in_time, until};
use tokio::sync::mpsc;

use crate::place::{Place, output, shell};

/// A live execution as its caller holds it.
pub struct Live {
    words: mpsc::Sender<v1::ExecuteInput>,
    events: Streaming<v1::ExecuteEvent>,
}

impl Live {
    pub async fn start(client: &mut Client, start: v1::ExecuteStart) -> Result<Self, Status> {
        let (words, receiver) = mpsc::channel(64);
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            let word = receiver.recv().await?;
            Some((word, receiver))
        });
        words.send(word(Input::Start(start))).await.expect("room");
        let events = in_time("started", client.sandboxes.execute_stream(stream)).await?.into_inner();
        let mut live = Self { words, events };
        match live.next().await? {
            Some(Event::Started(started)) => assert!(started.pid > 0 && started.execution.starts_with("ex-")),
            other => panic!("{other:?} came first"),
        }
        Ok(live)
    }

    pub async fn send(&self, input: Input) {
        self.words.send(word(input)).await.expect("the call is there");
    }

    pub async fn next(&mut self) -> Result<Option<Event>, Status> {
        let message = in_time("an event", self.events.message()).await?;
        Ok(message.map(|message| message.event.expect("an event")))
    }

    /// Everything printed, and the end.
    pub async fn rest(mut self) -> Result<(Vec<u8>, v1::ExecuteResponse), Status> {
        let mut printed = Vec::new();
        loop {
            match self.next().await? {
                Some(Event::Stdout(data) | Event::Stderr(data)) => printed.extend_from_slice(&data),
                Some(Event::Finished(done)) => {
                    assert!(self.next().await?.is_none(), "nothing follows the end");
                    return Ok((printed, done));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub async fn refused(self) -> Status {
        self.rest().await.expect_err("it must be refused")
    }
}

fn word(input: Input) -> v1::ExecuteInput {
    v1::ExecuteInput { input: Some(input) }
}

pub fn start(id: &str, line: &str, live_stdin: bool) -> v1::ExecuteStart {
    v1::ExecuteStart { request: Some(shell(id, line)), terminal: None, live_stdin }
}

fn invalid(status: &Status) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(crate::place::detail(status).reason(), ErrorReason::InvalidRequest);
}

#[tokio::test]
async fn output_arrives_while_the_program_runs() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut live =
        Live::start(&mut client, start(&id, "echo first; sleep 600000", false)).await.expect("started");
    assert_eq!(live.next().await.expect("printed"), Some(Event::Stdout("first\n".into())));
    assert_eq!(guest.running(), 1, "it still runs");
    live.send(Input::Signal(15)).await;
    let (_, done) = live.rest().await.expect("ended");
    assert_eq!(done.ended(), Some(Outcome::Signal(15)));

    let live = Live::start(&mut client, start(&id, "err oops; fail 9", false)).await.expect("started");
    let (printed, done) = live.rest().await.expect("ended");
    assert_eq!((&printed[..], done.ended()), (&b"oops\n"[..], Some(Outcome::ExitCode(9))));
    assert_eq!(done.stderr.expect("stderr").text, "oops\n");
}

#[tokio::test]
async fn input_is_live_until_it_is_ended() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let mut live = Live::start(&mut client, start(&id, "cat", true)).await.expect("started");
    for text in ["a", "bc"] {
        live.send(Input::Stdin(text.into())).await;
        assert_eq!(live.next().await.expect("echoed"), Some(Event::Stdout(text.into())));
    }
    live.send(Input::StdinEnd(v1::StdinEnd {})).await;
    let (_, done) = live.rest().await.expect("ended");
    assert_eq!(done.ended(), Some(Outcome::ExitCode(0)));
    let asked = v1::SandboxTimelineRequest { sandbox: id.clone(), ..Default::default() };
    let told = client.sandboxes.timeline(asked).await.expect("a record").into_inner().entries;
    assert_eq!((told[1].bytes_in, told[1].bytes_out), (3, 3), "what it read is counted as what it printed");

    // A stream that ends is no word: the program is not told that this was all.
    let (id, guest) = place.sandbox(&mut client).await;
    let live = Live::start(&mut client, start(&id, "cat; write done yes", true)).await.expect("started");
    live.send(Input::Stdin("last".into())).await;
    let Live { words, events } = live;
    drop(words);
    let (spare, _) = mpsc::channel(1);
    invalid(&Live { words: spare, events }.refused().await);
    until("killed", || guest.running() == 0).await;
    assert!(guest.file("done").is_none(), "the program took half of its input for all of it");
}

#[tokio::test]
async fn input_that_cannot_be_decoded_is_refused_and_never_taken_for_its_end() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut send = crate::raw::connect(&place.socket).await;
    let started = word(Input::Start(start(&id, "cat; write done yes", true)));
    let started = crate::raw::framed(&prost::Message::encode_to_vec(&started));
    let large = Input::Stdin(vec![b'x'; 5 * 1024 * 1024].into());
    let large = crate::raw::framed(&prost::Message::encode_to_vec(&word(large)));
    let garbled = crate::raw::framed(&[0x12, 0xff, 0xff]);
    // Too large, malformed, half a message, a frame header alone.
    let half = large.slice(..100);
    for (what, data, last) in [
        ("too large", large.clone(), false),
        ("malformed", garbled, false),
        ("half a message", half, true),
        ("a lone frame header", large.slice(..5), true),
    ] {
        let path = "/rekindle.v1.Sandboxes/ExecuteStream";
        let (answer, mut body) = crate::raw::call(&mut send, path, Default::default()).await;
        body.send_data(started.clone(), false).expect("sent");
        let answer = in_time("started", answer).await.expect("an answer");
        until("running", || guest.running() == 1).await;
        body.send_data(data, last).expect("sent");
        let status = in_time(what, crate::raw::trailing_status(answer)).await;
        invalid(&status);
        until("killed", || guest.running() == 0).await;
        assert!(guest.file("done").is_none(), "{what}: the program took it for the end of its input");
    }
}

#[tokio::test]
async fn much_output_arrives_whole() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let live = Live::start(&mut client, start(&id, "flood 5000000", false)).await.expect("started");
    let (printed, done) = live.rest().await.expect("ended");
    assert_eq!(printed.len(), 5_000_000);
    assert!(done.stdout.expect("stdout").truncated);
}

#[tokio::test]
async fn words_that_make_no_sense_end_the_execution_with_a_reason() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let size = v1::TerminalSize { rows: 24, columns: 80 };
    let wrong = [
        Input::Start(start(&id, "true", false)),
        Input::Stdin("not asked for".into()),
        Input::Signal(0),
        Input::Signal(99),
        Input::Resize(size),
    ];
    for input in wrong {
        let live = Live::start(&mut client, start(&id, "sleep 600000", false)).await.expect("started");
        live.send(input).await;
        invalid(&live.refused().await);
        until("killed", || guest.running() == 0).await;
    }
    let terminal = Some(size);
    let with = || v1::ExecuteStart { terminal, ..start(&id, "sleep 600000", true) };
    let live = Live::start(&mut client, with()).await.expect("started");
    live.send(Input::Resize(v1::TerminalSize { rows: 50, columns: 132 })).await;
    live.send(Input::Signal(9)).await;
    assert_eq!(live.rest().await.expect("resized, then killed").1.ended(), Some(Outcome::Signal(9)));
    let live = Live::start(&mut client, with()).await.expect("started");
    live.send(Input::Resize(v1::TerminalSize { rows: 0, columns: 132 })).await;
    invalid(&live.refused().await);
    assert_eq!(output(&mut client, &id, "echo alive").await, "alive\n");
}

#[tokio::test]
async fn a_beginning_that_makes_no_sense_starts_nothing() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let ran = guest.executed().len();
    let keyed = v1::ExecuteRequest { idempotency_key: "k".into(), ..shell(&id, "true") };
    let fed = v1::ExecuteRequest { stdin: "x".into(), ..shell(&id, "true") };
    let flat = Some(v1::TerminalSize { rows: 0, columns: 0 });
    let wrong = [
        vec![],
        vec![v1::ExecuteInput::default()],
        vec![word(Input::StdinEnd(v1::StdinEnd {}))],
        vec![word(Input::Start(v1::ExecuteStart::default()))],
        vec![word(Input::Start(v1::ExecuteStart { request: Some(keyed), ..Default::default() }))],
        vec![word(Input::Start(v1::ExecuteStart { request: Some(fed), ..Default::default() }))],
        vec![word(Input::Start(v1::ExecuteStart { terminal: flat, ..start(&id, "true", false) }))],
    ];
    for words in wrong {
        let stream = futures::stream::iter(words);
        invalid(&client.sandboxes.execute_stream(stream).await.expect_err("refused"));
    }
    assert_eq!(guest.executed().len(), ran);
}

#[tokio::test]
async fn a_caller_that_vanishes_kills_its_program_and_a_deadline_does_too() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    for line in ["sleep 600000", "cat", "flood 1000000000"] {
        let mut other = place.client().await;
        let live = Live::start(&mut other, start(&id, line, true)).await.expect("started");
        until("running", || guest.running() == 1).await;
        drop((live, other));
        until(line, || guest.running() == 0).await;
    }
    let mut request = rekindle_api::Request::new(futures::stream::iter([word(Input::Start(start(
        &id,
        "sleep 600000",
        false,
    )))]));
    request.metadata_mut().insert("grpc-timeout", "300m".parse().expect("a header"));
    let mut events = client.sandboxes.execute_stream(request).await.expect("started").into_inner();
    assert!(matches!(
        events.message().await.expect("started"),
        Some(v1::ExecuteEvent { event: Some(Event::Started(_)) })
    ));
    let late = in_time("the deadline", events.message()).await.expect_err("too late");
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late:?}");
    assert_eq!(crate::place::detail(&late).reason(), ErrorReason::Deadline);
    until("killed", || guest.running() == 0).await;
    let entries = client
        .sandboxes
        .timeline(v1::SandboxTimelineRequest { sandbox: id, ..Default::default() })
        .await
        .expect("told")
        .into_inner();
    assert!(
        entries.entries.iter().skip(1).all(|entry| matches!(entry.came(), Some(Came::Cancelled(_)))),
        "{entries:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_breaks_off_does_not_end_the_input_in_good_order() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut send = crate::raw::connect(&place.socket).await;
    for _ in 0..100 {
        let path = "/rekindle.v1.Sandboxes/ExecuteStream";
        let (answer, mut body) = crate::raw::call(&mut send, path, Default::default()).await;
        for input in [Input::Start(start(&id, "cat; write done yes", true)), Input::Stdin("half of".into())] {
            let message = prost::Message::encode_to_vec(&word(input));
            body.send_data(crate::raw::framed(&message), false).expect("sent");
        }
        let answer = in_time("started", answer).await.expect("an answer");
        until("running", || guest.running() == 1).await;
        body.send_reset(h2::Reason::CANCEL);
        until("killed", || guest.running() == 0).await;
        drop(answer);
        assert!(guest.file("done").is_none(), "the program took half of its input for all of it");
    }
    let live = Live::start(&mut client, start(&id, "cat; write done yes", true)).await.expect("started");
    live.send(Input::StdinEnd(v1::StdinEnd {})).await;
    live.rest().await.expect("ended");
    assert!(guest.file("done").is_some());
}
