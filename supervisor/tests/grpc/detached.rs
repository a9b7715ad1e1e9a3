//! Executions that outlive their caller: started, looked at, fed and ended.

use std::time::Duration;

use rekindle_api::v1::detached_execution::State;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{self, ErrorReason, execute_event::Event};
use rekindle_api::{Code, Status, Streaming, client::Client};
use rekindle_test_support::wait::in_time;

use crate::place::{Place, Wishes, detail, millis, output, refused, shell};

/// The number a sandbox may have at once.
const MOST: usize = 32;

pub fn start(id: &str, line: &str) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest { request: Some(shell(id, line)), terminal: None, live_stdin: false }
}

pub fn with_input(id: &str, line: &str) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest { live_stdin: true, ..start(id, line) }
}

pub async fn started(client: &mut Client, request: v1::StartExecutionRequest) -> String {
    let job = in_time("started", client.executions.start(request)).await.expect("started").into_inner();
    assert!(job.pid > 0 && matches!(job.state, Some(State::Running(_))), "{job:?}");
    job.execution
}

pub async fn list(client: &mut Client, id: &str) -> Vec<v1::DetachedExecution> {
    let asked = v1::ListExecutionsRequest { sandbox: id.into() };
    client.executions.list(asked).await.expect("listed").into_inner().executions
}

pub async fn wait(client: &mut Client, id: &str, execution: &str) -> Result<v1::ExecuteResponse, Status> {
    let asked = v1::WaitExecutionRequest { sandbox: id.into(), execution: execution.into() };
    Ok(in_time("the end", client.executions.wait(asked)).await?.into_inner())
}

pub async fn attach(client: &mut Client, id: &str, execution: &str) -> Streaming<v1::ExecuteEvent> {
    let asked =
        v1::AttachExecutionRequest { sandbox: id.into(), execution: execution.into(), from_now: false };
    let mut events = client.executions.attach(asked).await.expect("attached").into_inner();
    match next(&mut events).await.expect("an event") {
        Some(Event::Started(told)) => assert!(told.execution == execution && told.pid > 0),
        other => panic!("{other:?} came first"),
    }
    events
}

pub async fn next(events: &mut Streaming<v1::ExecuteEvent>) -> Result<Option<Event>, Status> {
    let message = in_time("an event", events.message()).await?;
    Ok(message.map(|message| message.event.expect("an event")))
}

/// What someone attached was told until the end.
pub struct Told {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub missed: u64,
    pub end: v1::ExecuteResponse,
}

pub async fn rest(mut events: Streaming<v1::ExecuteEvent>) -> Told {
    let (mut stdout, mut stderr, mut missed) = (Vec::new(), Vec::new(), 0);
    loop {
        match next(&mut events).await.expect("an event") {
            Some(Event::Stdout(data)) => stdout.extend_from_slice(&data),
            Some(Event::Stderr(data)) => stderr.extend_from_slice(&data),
            Some(Event::Missed(more)) => missed += more.stdout_bytes + more.stderr_bytes,
            Some(Event::Finished(end)) => {
                assert!(next(&mut events).await.expect("no error").is_none(), "nothing follows the end");
                return Told { stdout, stderr, missed, end };
            }
            other => panic!("{other:?}"),
        }
    }
}

pub fn input(id: &str, execution: &str, data: &'static str, end: bool) -> v1::SendInputRequest {
    v1::SendInputRequest { sandbox: id.into(), execution: execution.into(), data: data.into(), end }
}

pub fn signal(id: &str, execution: &str, signal: u32) -> v1::SignalExecutionRequest {
    v1::SignalExecutionRequest { sandbox: id.into(), execution: execution.into(), signal, everyone: false }
}

pub async fn timeline(client: &mut Client, id: &str) -> Vec<v1::TimelineEntry> {
    let asked = v1::SandboxTimelineRequest { sandbox: id.into(), ..Default::default() };
    client.sandboxes.timeline(asked).await.expect("a record").into_inner().entries
}

#[tokio::test]
async fn a_program_outlives_the_connections_of_who_started_it_and_of_who_is_attached() {
    let place = Place::new().await;
    let mut first = place.client().await;
    let (id, guest) = place.sandbox(&mut first).await;
    let execution = started(&mut first, with_input(&id, "echo begun; cat; fail 3")).await;
    let mut events = attach(&mut first, &id, &execution).await;
    assert_eq!(next(&mut events).await.expect("printed"), Some(Event::Stdout("begun\n".into())));
    drop(events);
    drop(first);

    let mut second = place.client().await;
    let events = attach(&mut second, &id, &execution).await;
    second.executions.send_input(input(&id, &execution, "more", false)).await.expect("written");
    assert_eq!(guest.running(), 1, "it runs on");
    let jobs = list(&mut second, &id).await;
    assert!(jobs[0].takes_input && matches!(jobs[0].state, Some(State::Running(_))), "{jobs:?}");
    second.executions.send_input(input(&id, &execution, ".", true)).await.expect("written");
    let told = rest(events).await;
    assert_eq!(&told.stdout[..], b"begun\nmore.", "what was missed comes first");
    assert_eq!((told.missed, told.end.ended()), (0, Some(Outcome::ExitCode(3))));

    // What came of it stays, for whoever asks and as often as they ask.
    for _ in 0..2 {
        let end = wait(&mut second, &id, &execution).await.expect("it has ended");
        assert_eq!((end.ended(), &end.execution), (Some(Outcome::ExitCode(3)), &execution));
        assert_eq!(end.stdout.expect("stdout").text, "begun\nmore.");
    }
    assert_eq!(rest(attach(&mut second, &id, &execution).await).await.stdout, b"begun\nmore.");
    let job = list(&mut second, &id).await.remove(0);
    assert_eq!((job.stdout_bytes, job.takes_input, &job.subject[..]), (11, false, "echo begun; cat; fail 3"));
    assert!(matches!(job.state, Some(State::Outcome(_))), "{job:?}");
    let told = timeline(&mut second, &id).await;
    assert_eq!((told.len(), &told[1].call[..], &told[1].execution), (2, "execute_detached", &execution));
    assert_eq!((told[1].bytes_in, told[1].bytes_out), (5, 11));
    assert!(matches!(&told[1].outcome.as_ref().expect("one").outcome, Some(Came::Execution(_))), "{told:?}");
}

#[tokio::test]
async fn who_waits_and_goes_away_leaves_the_program_running() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "cat")).await;
    let mut other = place.client().await;
    let mut asked =
        tonic::Request::new(v1::WaitExecutionRequest { sandbox: id.clone(), execution: execution.clone() });
    asked.set_timeout(Duration::from_millis(50));
    let status = in_time("a refusal", other.executions.wait(asked)).await.expect_err("it runs");
    // The server says the one, and the client, whose clock may be first, the other.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status:?}");
    let waiting = tokio::spawn({
        let (id, execution) = (id.clone(), execution.clone());
        async move { wait(&mut other, &id, &execution).await }
    });
    waiting.abort();
    let _ = waiting.await;
    client.executions.send_input(input(&id, &execution, "still there", true)).await.expect("written");
    let end = wait(&mut client, &id, &execution).await.expect("ended");
    assert_eq!(
        (end.ended(), &end.stdout.expect("stdout").text[..]),
        (Some(Outcome::ExitCode(0)), "still there")
    );
    assert_eq!(guest.running(), 0);
}

#[tokio::test]
async fn what_was_missed_beyond_the_kept_tail_is_counted_and_in_the_spilled_file() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let execution = started(&mut client, start(&id, "echo head; flood 3000000; err done")).await;
    let end = wait(&mut client, &id, &execution).await.expect("ended");
    let spilled = end.stdout.expect("stdout").spilled_path;
    let told = rest(attach(&mut client, &id, &execution).await).await;
    assert_eq!(told.stderr, b"done\n", "the last is there");
    assert!(told.missed > 2_000_000 && !told.stdout.is_empty(), "missed {}", told.missed);
    assert_eq!(told.missed + told.stdout.len() as u64, 3_000_005, "every byte is told or counted");
    let asked =
        v1::DownloadFileRequest { sandbox: id.clone(), path: spilled, max_bytes: 0, user: String::new() };
    let mut parts = client.files.download(asked).await.expect("it is kept").into_inner();
    let mut size = 0;
    while let Some(part) = in_time("a piece", parts.message()).await.expect("a piece") {
        if let Some(v1::download_file_response::Part::Chunk(data)) = part.part {
            size += data.len();
        }
    }
    assert_eq!(size, 3_000_005);
    // From now on: nothing of what was printed before.
    let asked = v1::AttachExecutionRequest { sandbox: id.clone(), execution, from_now: true };
    let mut events = client.executions.attach(asked).await.expect("attached").into_inner();
    assert!(matches!(next(&mut events).await, Ok(Some(Event::Started(_)))));
    let told = rest(events).await;
    assert_eq!((told.missed, told.stdout.len(), told.stderr.len()), (0, 0, 0));
}

#[tokio::test]
async fn what_was_missed_can_be_read_while_the_program_runs() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let asked = with_input(&id, "echo head; flood 200000; err kept; cat");
    let execution = started(&mut client, asked).await;
    let mut early = attach(&mut client, &id, &execution).await;
    while !matches!(next(&mut early).await.expect("an event"), Some(Event::Stderr(_))) {}
    let asked = v1::AttachExecutionRequest {
        sandbox: id.clone(),
        execution: execution.clone(),
        ..v1::AttachExecutionRequest::default()
    };
    let mut events = client.executions.attach(asked).await.expect("attached").into_inner();
    let Ok(Some(Event::Started(begun))) = next(&mut events).await else { panic!("its start") };
    let Ok(Some(Event::Missed(missed))) = next(&mut events).await else { panic!("what is missed") };
    assert_eq!(begun.stdout_path, missed.stdout_path);
    let kept = guest.file(std::str::from_utf8(&missed.stdout_path).expect("text")).expect("it is there");
    assert!(kept.starts_with(b"head\nyyy") && kept.len() as u64 >= missed.stdout_bytes, "{}", kept.len());
    let job = list(&mut client, &id).await.remove(0);
    assert_eq!((&job.stdout_path, &job.stderr_path), (&missed.stdout_path, &missed.stderr_path));
    client.executions.send_input(input(&id, &execution, "", true)).await.expect("ended");
    let end = wait(&mut client, &id, &execution).await.expect("ended");
    let job = list(&mut client, &id).await.remove(0);
    assert_eq!(job.stdout_path, end.stdout.expect("stdout").spilled_path);
    assert_eq!(job.stderr_path, b""[..], "what was not cut is not kept");
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_up_neither_the_program_nor_others() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let execution = started(&mut client, with_input(&id, "cat; flood 20000000")).await;
    let unread = attach(&mut place.client().await, &id, &execution).await;
    client.executions.send_input(input(&id, &execution, "", true)).await.expect("ended");
    let end = wait(&mut client, &id, &execution).await.expect("it ran to its end");
    assert_eq!(end.stdout.expect("stdout").total_bytes, 20_000_000);
    let told = rest(unread).await;
    assert_eq!(told.missed + told.stdout.len() as u64, 20_000_000);
}

#[tokio::test]
async fn signals_reach_it_and_what_makes_no_sense_is_refused() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let size = Some(v1::TerminalSize { rows: 24, columns: 80 });
    let execution = started(&mut client, start(&id, "sleep 600000")).await;
    let resize = |execution: &str, size| v1::ResizeExecutionRequest {
        sandbox: id.clone(),
        execution: execution.into(),
        size,
    };
    for wrong in [0, 65, 99_999] {
        let sent = client.executions.signal(signal(&id, &execution, wrong)).await;
        refused(sent, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    let sent = client.executions.send_input(input(&id, &execution, "x", false)).await;
    refused(sent, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let resized = client.executions.resize(resize(&execution, size)).await;
    refused(resized, Code::InvalidArgument, ErrorReason::InvalidRequest);
    client.executions.signal(signal(&id, &execution, 15)).await.expect("sent");
    let end = wait(&mut client, &id, &execution).await.expect("ended");
    assert_eq!(end.ended(), Some(Outcome::Signal(15)));
    refused(
        client.executions.signal(signal(&id, &execution, 15)).await,
        Code::NotFound,
        ErrorReason::NotFound,
    );
    let told = timeline(&mut client, &id).await;
    let calls: Vec<_> = told.iter().map(|entry| (&entry.call[..], &entry.subject[..])).collect();
    assert!(calls.contains(&("signal", &format!("{execution} 15")[..])), "{calls:?}");

    let terminal = v1::StartExecutionRequest { terminal: size, ..with_input(&id, "cat") };
    let execution = started(&mut client, terminal).await;
    client.executions.resize(resize(&execution, size)).await.expect("resized");
    refused(
        client.executions.resize(resize(&execution, None)).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
    client.executions.send_input(input(&id, &execution, "", true)).await.expect("ended");
    wait(&mut client, &id, &execution).await.expect("ended");
    for unknown in ["ex-999", "", "sb-1", "../1"] {
        let status = wait(&mut client, &id, unknown).await.expect_err("there is none");
        assert_eq!((status.code(), detail(&status).reason()), (Code::NotFound, ErrorReason::NotFound));
    }
    // An ordinary execution is none of these.
    let done = client.sandboxes.execute(shell(&id, "true")).await.expect("done").into_inner();
    assert!(wait(&mut client, &id, &done.execution).await.is_err());
    let keyed = v1::ExecuteRequest { idempotency_key: "k".into(), ..shell(&id, "true") };
    let keyed = v1::StartExecutionRequest { request: Some(keyed), ..start(&id, "") };
    refused(client.executions.start(keyed).await, Code::InvalidArgument, ErrorReason::InvalidRequest);
    refused(
        client.executions.start(v1::StartExecutionRequest::default()).await,
        Code::InvalidArgument,
        ErrorReason::InvalidRequest,
    );
}

#[tokio::test]
async fn a_time_limit_is_kept_and_without_one_the_default_does_not_apply() {
    let place = Place::with(Wishes {
        service: |config| {
            config.execute_timeout = Duration::from_millis(50);
            config.max_execute_timeout = Duration::from_millis(100);
        },
        ..Wishes::default()
    })
    .await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let unlimited = started(&mut client, start(&id, "sleep 600000")).await;
    let limited = v1::ExecuteRequest { timeout: millis(300), ..shell(&id, "sleep 600000") };
    let limited =
        started(&mut client, v1::StartExecutionRequest { request: Some(limited), ..start(&id, "") });
    let limited = limited.await;
    let end = wait(&mut client, &id, &limited).await.expect("ended");
    assert!(matches!(end.ended(), Some(Outcome::TimedOut(_))), "{end:?}");
    assert_eq!(guest.running(), 1, "the other has no limit");
    for wrong in [millis(0), millis(1 << 40)] {
        let request = v1::ExecuteRequest { timeout: wrong, ..shell(&id, "true") };
        let request = v1::StartExecutionRequest { request: Some(request), ..start(&id, "") };
        assert_eq!(
            client.executions.start(request).await.expect_err("no limit").code(),
            Code::InvalidArgument
        );
    }
    client.executions.signal(signal(&id, &unlimited, 9)).await.expect("sent");
    wait(&mut client, &id, &unlimited).await.expect("ended");
}

#[tokio::test]
async fn a_sandbox_has_so_many_at_once_and_a_place_is_free_when_one_ends() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let mut running = Vec::new();
    for _ in 0..MOST {
        running.push(started(&mut client, start(&id, "sleep 600000")).await);
    }
    let more = client.executions.start(start(&id, "sleep 600000")).await;
    assert!(refused(more, Code::ResourceExhausted, ErrorReason::Busy).retryable);
    assert_eq!(guest.running(), MOST, "nothing was started");
    assert_eq!(output(&mut client, &id, "echo alive").await, "alive\n", "other calls go on");
    let (second, _) = place.sandbox(&mut client).await;
    started(&mut client, start(&second, "sleep 600000")).await;
    client.executions.signal(signal(&id, &running[7], 9)).await.expect("sent");
    wait(&mut client, &id, &running[7]).await.expect("ended");
    started(&mut client, start(&id, "sleep 600000")).await;
    assert_eq!(list(&mut client, &id).await.len(), MOST + 1);
}

#[tokio::test]
async fn output_of_old_ones_makes_room_and_how_they_ended_stays() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let mut all = Vec::new();
    for code in 0..40 {
        let execution = started(&mut client, start(&id, &format!("flood 100000; fail {code}"))).await;
        wait(&mut client, &id, &execution).await.expect("ended");
        all.push(execution);
    }
    let old = wait(&mut client, &id, &all[0]).await.expect("its end is kept");
    assert_eq!(old.ended(), Some(Outcome::ExitCode(0)));
    let stdout = old.stdout.expect("stdout");
    assert!(stdout.text.is_empty() && stdout.truncated && stdout.total_bytes == 100_000, "{stdout:?}");
    assert!(!stdout.spilled_path.is_empty(), "where its output is stays, too");
    assert_eq!(rest(attach(&mut client, &id, &all[0]).await).await.missed, 100_000);
    let new = wait(&mut client, &id, &all[39]).await.expect("ended");
    assert!(new.ended() == Some(Outcome::ExitCode(39)) && !new.stdout.expect("stdout").text.is_empty());
}
