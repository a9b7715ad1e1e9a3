//! Executions by agents that lie, flood, hang and vanish.

use rekindle_protocol::wire::{
    CollectedOutput, ErrorCode, ExecuteInput, ExecuteResult, Output, Pong, Response, Started, Usage,
    execute_result,
};
use rekindle_protocol::{frame, mux::Stream};
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::super::fake::{Fake, SOON, connected, error, say};
use super::super::{Outcome, Refusal};
use super::*;
use crate::host::cgroup::CpuQuota;

fn started() -> Reply {
    Reply::Started(Started { execution: 7, pid: 42, ..Started::default() })
}

fn result() -> Reply {
    Reply::Result(ExecuteResult {
        outcome: Some(execute_result::Outcome::Exited(3)),
        stdout: Some(CollectedOutput::default()),
        stderr: Some(CollectedOutput::default()),
        usage: Some(Usage::default()),
        diagnosis: None,
        interpreter: 0,
    })
}

fn output(data: impl Into<Bytes>) -> Reply {
    Reply::Output(Output { stream: wire::OutputStream::Stdout.into(), data: data.into() })
}

fn streaming() -> ExecuteRequest {
    ExecuteRequest { stream: true, ..ExecuteRequest::default() }
}

/// Starts an execution; the agent says these replies and holds the stream open.
async fn begun(
    request: ExecuteRequest,
    replies: Vec<Reply>,
) -> (AgentClient, Fake, Result<Execution, AgentError>, Stream) {
    let (client, mut agent) = connected().await;
    let answer = async {
        let (_, mut stream) = agent.next().await;
        for reply in replies {
            say(&mut stream, reply).await;
        }
        stream
    };
    let (execution, stream) = tokio::join!(client.execute(request), answer);
    (client, agent, execution, stream)
}

#[tokio::test]
async fn events_arrive_in_order_and_then_nothing() {
    let replies = vec![started(), output("a"), output("b"), result()];
    let (_client, _agent, execution, _stream) = begun(streaming(), replies).await;
    let mut execution = execution.expect("started");
    let spilled = super::SpillPaths::default();
    assert_eq!(*execution.started(), super::Started { execution: 7, pid: 42, spilled });
    for expected in ["a", "b"] {
        let event = execution.next().await.expect("no error");
        assert_eq!(event, Some(Event::Output { stream: OutputStream::Stdout, data: expected.into() }));
    }
    let Some(Event::Finished(finished)) = execution.next().await.expect("no error") else {
        panic!("the end")
    };
    assert_eq!(finished.outcome, Outcome::Exited(3));
    assert_eq!(execution.next().await.expect("no error"), None);
}

#[tokio::test]
async fn a_guest_that_prints_without_end_takes_its_share_of_the_hosts_processors_and_no_more() {
    let (client, _agent, execution, mut stream) = begun(streaming(), vec![started()]).await;
    client.meter().set_share(CpuQuota { millis: 100 });
    let flood = tokio::spawn(async move {
        let reply = Response { reply: Some(output(vec![b'x'; 1024])) };
        while frame::write(&mut stream, &reply).await.is_ok() {}
    });
    let _flood = AbortOnDropHandle::new(flood);
    let mut execution = execution.expect("started");
    let (before, began) = (client.meter().taken(), Instant::now());
    while began.elapsed() < Duration::from_secs(3) {
        execution.next().await.expect("no error").expect("no end");
    }
    let taken = client.meter().taken() - before;
    // Besides what it earns meanwhile, what there is after a rest, and a turn of each who reads.
    let most = began.elapsed() / 10 + Duration::from_millis(500);
    assert!(taken > Duration::ZERO && taken < most, "{taken:?} in {:?}", began.elapsed());
}

#[tokio::test]
async fn replies_out_of_place_break_the_protocol() {
    let odd = [
        vec![result()],
        vec![output("early")],
        vec![Reply::Pong(Pong::default())],
        vec![Reply::Started(Started { execution: 0, pid: 1, ..Started::default() })],
        vec![Reply::Started(Started {
            execution: 7,
            pid: 1,
            stdout_path: "run/x".into(),
            ..Started::default()
        })],
        vec![Reply::Started(Started {
            execution: 7,
            pid: 1,
            stderr_path: "/x\0".into(),
            ..Started::default()
        })],
        vec![Reply::Started(Started {
            execution: 7,
            pid: 1,
            stderr_path: vec![b'/'; 5000].into(),
            ..Started::default()
        })],
        vec![started(), started()],
        vec![started(), Reply::Pong(Pong::default())],
        vec![started(), output("nobody asked for it")],
    ];
    for replies in odd {
        let (_client, _agent, execution, _stream) = begun(ExecuteRequest::default(), replies.clone()).await;
        let outcome = match execution {
            Ok(execution) => execution.wait().await,
            Err(error) => Err(error),
        };
        assert!(matches!(outcome, Err(AgentError::Protocol { .. })), "{replies:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn output_of_impossible_size_or_stream_breaks_the_protocol() {
    let odd = [
        output(vec![0; MAX_CHUNK_BYTES + 1]),
        Reply::Output(Output { stream: 0, data: "x".into() }),
        Reply::Output(Output { stream: 9, data: "x".into() }),
    ];
    for reply in odd {
        let (client, mut agent) = connected().await;
        // Larger than the window, so the answer goes on while the client reads.
        tokio::spawn(async move {
            let (_, mut stream) = agent.next().await;
            say(&mut stream, started()).await;
            say(&mut stream, reply).await;
            agent.over().await;
        });
        let mut execution = client.execute(streaming()).await.expect("started");
        let event = timeout(SOON, execution.next()).await.expect("in time");
        assert!(matches!(event, Err(AgentError::Protocol { .. })), "{event:?}");
        assert_eq!(execution.next().await.expect("over"), None);
    }
}

#[tokio::test]
async fn a_refused_program_is_a_typed_error() {
    let replies = vec![error(ErrorCode::GateClosed, "the gate is closed")];
    let (_client, _agent, execution, _stream) = begun(ExecuteRequest::default(), replies).await;
    assert_eq!(execution.expect_err("refused").refusal(), Some(Refusal::GateClosed));
}

#[tokio::test]
async fn an_output_limit_that_leaves_no_room_for_the_marker_is_not_sent() {
    let (client, _agent) = connected().await;
    for output_limit in [1, 99, 100_001, u32::MAX] {
        let request = ExecuteRequest { output_limit, ..ExecuteRequest::default() };
        let error = client.execute(request).await.expect_err("out of bounds");
        assert!(matches!(error, AgentError::Invalid { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn dropping_an_execution_resets_its_stream() {
    let (client, _agent, execution, mut stream) = begun(ExecuteRequest::default(), vec![started()]).await;
    let execution = execution.expect("started");
    let mut byte = [0];
    let waiting = timeout(std::time::Duration::from_millis(50), stream.read(&mut byte)).await;
    assert!(waiting.is_err(), "a running execution's stream stays open in both directions");
    drop(execution);
    let end = timeout(SOON, stream.read(&mut byte)).await.expect("the reset arrives");
    assert!(matches!(end, Ok(0)), "{end:?}");
    drop(client);
}

#[tokio::test]
async fn dropping_an_execution_resets_its_stream_even_while_input_is_stuck() {
    let request = ExecuteRequest { stdin: Stdin::Live.into(), ..ExecuteRequest::default() };
    let (_client, mut agent, execution, stream) = begun(request, vec![started()]).await;
    let mut execution = execution.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    assert!(execution.take_stdin().is_none(), "only once");
    let writing: JoinHandle<_> = tokio::spawn(async move {
        loop {
            // Nobody reads it, so this soon waits.
            if stdin.send(vec![0; 100_000].into()).await.is_err() {
                return;
            }
        }
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(!writing.is_finished());
    drop(execution);
    timeout(SOON, writing).await.expect("the writer is told").expect("no panic");
    let mut stream = stream;
    let drained = timeout(SOON, async {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("drained");
        all.len()
    });
    assert!(drained.await.expect("the stream ends") < 1024 * 1024, "no more than the window was sent");
    let over = agent.next();
    assert!(timeout(std::time::Duration::from_millis(20), over).await.is_err(), "nothing else was opened");
}

#[tokio::test]
async fn output_arrives_while_input_is_stuck() {
    let request = ExecuteRequest { stdin: Stdin::Live.into(), stream: true, ..ExecuteRequest::default() };
    let (client, mut agent) = connected().await;
    let answering = tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, started()).await;
        // Far more than the window, and not one byte of input is read.
        for _ in 0..64 {
            say(&mut stream, output(vec![b'x'; 64 * 1024])).await;
        }
        say(&mut stream, result()).await;
        agent.over().await;
    });
    let mut execution = client.execute(request).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    let writing = tokio::spawn(async move { while stdin.send(vec![0; 100_000].into()).await.is_ok() {} });
    let mut received = 0;
    let outcome = timeout(SOON, async {
        loop {
            match execution.next().await.expect("no error").expect("not over") {
                Event::Output { data, .. } => received += data.len(),
                Event::Finished(finished) => return finished.outcome,
            }
        }
    });
    assert_eq!(outcome.await.expect("no deadlock"), Outcome::Exited(3));
    assert_eq!(received, 64 * 64 * 1024);
    drop(execution);
    timeout(SOON, writing).await.expect("the writer is told").expect("no panic");
    drop(client);
    timeout(SOON, answering).await.expect("the session ends").expect("no panic");
}

#[tokio::test]
async fn input_arrives_whole_and_ends_where_its_writer_says_so() {
    let request = ExecuteRequest { stdin: Stdin::Live.into(), ..ExecuteRequest::default() };
    let (_client, _agent, execution, mut stream) = begun(request, vec![started()]).await;
    let mut execution = execution.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    let reading = tokio::spawn(async move {
        let mut all = Vec::new();
        loop {
            let input: ExecuteInput = frame::read(&mut stream).await.expect("a frame").expect("no end");
            assert!(input.data.len() <= MAX_CHUNK_BYTES);
            all.extend_from_slice(&input.data);
            if input.eof {
                say(&mut stream, result()).await;
                return all;
            }
        }
    });
    let sent: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    stdin.send(sent.clone().into()).await.expect("sent");
    stdin.send(Bytes::from_static(b"end")).await.expect("sent");
    stdin.eof();
    execution.wait().await.expect("finished");
    let received = reading.await.expect("no panic");
    assert_eq!(received, [&sent[..], b"end"].concat());
}

#[tokio::test]
async fn a_writer_that_is_dropped_does_not_end_the_input() {
    let request = ExecuteRequest { stdin: Stdin::Live.into(), ..ExecuteRequest::default() };
    let (_client, _agent, execution, mut stream) = begun(request, vec![started()]).await;
    let mut execution = execution.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    stdin.send(Bytes::from_static(b"half")).await.expect("sent");
    drop(stdin);
    let input: ExecuteInput = frame::read(&mut stream).await.expect("a frame").expect("no end");
    assert!(!input.eof && &input.data[..] == b"half");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(execution);
    let next = timeout(SOON, frame::read::<ExecuteInput>(&mut stream)).await.expect("given up");
    assert!(!matches!(next, Ok(Some(ExecuteInput { eof: true, .. }))), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_starts_the_program_is_given_up() {
    let (client, mut agent) = connected().await;
    let patience = ExecutePatience { start: SOON, grace: SOON, ..ExecutePatience::default() };
    let execute = tokio::spawn(async move { client.execute_with(ExecuteRequest::default(), patience).await });
    let _held = agent.next().await;
    let error = execute.await.expect("no panic").expect_err("silence");
    assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
}

/// Answers pings for as long as the session lasts, and nothing else.
fn only_lives(mut agent: Fake) {
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (op, mut stream) = agent.next().await;
            if matches!(op, Op::Ping(_)) {
                say(&mut stream, Reply::Pong(Pong::default())).await;
            }
            held.push(stream);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_outlives_the_time_limit_and_its_grace_is_given_up() {
    let request = ExecuteRequest { timeout_millis: 5_000, ..ExecuteRequest::default() };
    let (_client, agent, execution, _stream) = begun(request, vec![started()]).await;
    only_lives(agent);
    let began = Instant::now();
    let error = execution.expect("started").wait().await.expect_err("silence");
    assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
    assert!(began.elapsed() >= Duration::from_secs(5) + ExecutePatience::default().grace);
    assert!(began.elapsed() < 2 * SOON);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_hangs_is_found_soon_after_the_time_limit() {
    let patience = ExecutePatience::default();
    let limited = |secs| ExecuteRequest { timeout_millis: secs * 1_000, ..ExecuteRequest::default() };
    for limit in [1, 300] {
        let found = Duration::from_secs(limit) + patience.suspicion + patience.sign_of_life;
        let close = |began: Instant| (found..found + Duration::from_secs(1)).contains(&began.elapsed());

        let (_client, _agent, execution, _stream) = begun(limited(limit), vec![started()]).await;
        let began = Instant::now();
        let error = execution.expect("started").wait().await.expect_err("silence");
        assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
        assert!(close(began), "{limit}: {:?}", began.elapsed());

        let (client, mut agent) = connected().await;
        let began = Instant::now();
        let run = tokio::spawn(async move { client.run(limited(limit)).await });
        let _held = agent.next().await;
        let error = run.await.expect("no panic").expect_err("silence");
        assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
        assert!(close(began), "{limit}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stood_still_is_given_up_later_by_as_long() {
    let request = ExecuteRequest { timeout_millis: 5_000, ..ExecuteRequest::default() };
    let (_client, _agent, execution, _stream) = begun(request, vec![started()]).await;
    let mut execution = execution.expect("started");
    let stood = Duration::from_secs(100_000);
    let began = Instant::now();
    tokio::time::sleep(stood).await;
    execution.postpone(stood);
    let error = execution.wait().await.expect_err("silence");
    assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
    assert!(began.elapsed() >= stood + Duration::from_secs(5) + ExecutePatience::default().suspicion);
    assert!(began.elapsed() < stood + SOON);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_late_from_an_agent_that_lives_is_taken() {
    let (client, mut agent) = connected().await;
    let run = tokio::spawn(async move { client.run(limited()).await });
    let (_, mut stream) = agent.next().await;
    only_lives(agent);
    tokio::time::sleep(Duration::from_secs(60)).await;
    say(&mut stream, result()).await;
    let finished = run.await.expect("no panic").expect("slow is not lost");
    assert_eq!(finished.outcome, Outcome::Exited(3));
}

#[tokio::test(start_paused = true)]
async fn live_output_does_not_extend_the_deadline() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, started()).await;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            say(&mut stream, output("drip")).await;
        }
    });
    let request = ExecuteRequest { timeout_millis: 5_000, ..streaming() };
    let began = Instant::now();
    let execution = client.execute(request).await.expect("started");
    let error = execution.wait().await.expect_err("it never ends");
    assert!(matches!(error, AgentError::Silent { .. }), "{error:?}");
    assert!(began.elapsed() < SOON);
}

/// Runs a program; the agent says these replies. Also returns what it was asked.
/// An agent that lets its program print for ever.
fn prints_on(mut stream: Stream) -> JoinHandle<()> {
    tokio::spawn(async move {
        let reply = wire::Response { reply: Some(output(vec![b'x'; 60_000])) };
        while frame::write(&mut stream, &reply).await.is_ok() {}
    })
}

#[tokio::test(start_paused = true)]
async fn output_that_goes_on_and_on_after_the_time_limit_is_cut_off() {
    let request = ExecuteRequest { timeout_millis: 1_000, ..streaming() };
    let (_client, _agent, execution, stream) = begun(request, vec![started()]).await;
    let mut execution = execution.expect("started");
    let printing = prints_on(stream);
    // Within its time it may print as much as it likes, and what a caller reads late is not lost.
    let within = 64 << 20;
    let mut read = 0;
    while read < within {
        match execution.next().await.expect("in its time") {
            Some(Event::Output { data, .. }) => read += data.len(),
            other => panic!("{other:?}"),
        }
    }
    tokio::time::advance(Duration::from_secs(3600)).await;
    let mut late = 0;
    let error = loop {
        // A caller that takes its time: there is always more when it comes.
        tokio::time::sleep(Duration::from_millis(1)).await;
        match execution.next().await {
            Ok(Some(Event::Output { data, .. })) => late += data.len(),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        assert!(late < 64 << 20, "it is cut off");
    };
    assert!(late > 2 << 20, "what lies in buffers is still read");
    assert!(matches!(error, AgentError::Protocol { .. }), "{error}");
    drop(execution);
    printing.await.expect("its stream was reset");
}

async fn ran(request: ExecuteRequest, replies: Vec<Reply>) -> (Result<Finished, AgentError>, ExecuteRequest) {
    let (client, mut agent) = connected().await;
    let answer = async {
        let (asked, mut stream) = agent.next().await;
        for reply in replies {
            say(&mut stream, reply).await;
        }
        let Op::Execute(asked) = asked else { panic!("an execution") };
        (asked, stream)
    };
    let (finished, (asked, _stream)) = tokio::join!(client.run(request), answer);
    (finished, asked)
}

fn limited() -> ExecuteRequest {
    ExecuteRequest { timeout_millis: 5_000, ..ExecuteRequest::default() }
}

#[tokio::test]
async fn a_run_wants_the_result_alone_and_bears_with_agents_that_tell_the_start() {
    for replies in [vec![result()], vec![started(), result()]] {
        let (finished, asked) = ran(ExecuteRequest { stream: true, ..limited() }, replies).await;
        assert_eq!(finished.expect("a result").outcome, Outcome::Exited(3));
        assert!(asked.unannounced && !asked.stream, "{asked:?}");
    }
}

#[tokio::test]
async fn a_run_without_a_time_limit_wants_a_sign_of_life() {
    let (finished, asked) = ran(ExecuteRequest::default(), vec![started(), result()]).await;
    assert_eq!(finished.expect("a result").outcome, Outcome::Exited(3));
    assert!(!asked.unannounced, "{asked:?}");
}

#[tokio::test]
async fn replies_out_of_place_break_a_run() {
    for replies in [vec![output("nobody asked for it")], vec![started(), started()]] {
        let (finished, _) = ran(limited(), replies.clone()).await;
        assert!(matches!(finished, Err(AgentError::Protocol { .. })), "{replies:?}: {finished:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_brings_the_result_of_a_run_is_given_up() {
    let (client, mut agent) = connected().await;
    let began = Instant::now();
    let run = tokio::spawn(async move { client.run(limited()).await });
    let _held = agent.next().await;
    only_lives(agent);
    let error = run.await.expect("no panic").expect_err("silence");
    assert!(matches!(error, AgentError::Silent { operation: EXECUTE, .. }), "{error:?}");
    let ExecutePatience { start, grace, .. } = ExecutePatience::default();
    assert!(began.elapsed() >= start + grace + Duration::from_secs(5));
}

#[tokio::test]
async fn a_stream_reset_half_way_is_an_error() {
    let (_client, _agent, execution, stream) = begun(streaming(), vec![started(), output("a")]).await;
    drop(stream);
    let mut execution = execution.expect("started");
    assert!(matches!(execution.next().await, Ok(Some(Event::Output { .. }))), "what came before is not lost");
    let error = execution.next().await.expect_err("no result");
    assert!(matches!(error, AgentError::Abandoned { .. }), "{error:?}");
}

#[tokio::test]
async fn a_session_lost_half_way_is_an_error() {
    let (_client, agent, execution, stream) = begun(ExecuteRequest::default(), vec![started()]).await;
    drop((agent, stream));
    let error = execution.expect("started").wait().await.expect_err("lost");
    assert!(matches!(error, AgentError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn a_flood_that_nobody_reads_stops_at_the_window() {
    let (client, mut agent) = connected().await;
    let (report, mut sent) = tokio::sync::watch::channel(0usize);
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, started()).await;
        loop {
            say(&mut stream, output(vec![b'x'; 16 * 1024])).await;
            report.send_modify(|sent| *sent += 16 * 1024);
        }
    });
    let execution = client.execute(streaming()).await.expect("started");
    // The flood has come to a halt when nothing moves for a while.
    while timeout(Duration::from_millis(300), sent.changed()).await.is_ok() {}
    assert!(*sent.borrow() > 0);
    assert!(*sent.borrow() < 1024 * 1024, "{} bytes went out with nobody reading", *sent.borrow());
    drop(execution);
}

#[tokio::test]
async fn waiting_can_be_abandoned_and_taken_up_without_losing_a_byte() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let (_, mut stream) = agent.next().await;
        say(&mut stream, started()).await;
        for i in 0..200u8 {
            let frame = frame::encode(&wire::Response { reply: Some(output(vec![i; 1000])) }).expect("small");
            for piece in frame.chunks(300) {
                tokio::io::AsyncWriteExt::write_all(&mut stream, piece).await.expect("sent");
                tokio::task::yield_now().await;
            }
        }
        say(&mut stream, result()).await;
        agent.over().await;
    });
    let mut execution = client.execute(streaming()).await.expect("started");
    let mut received = Vec::new();
    loop {
        let event = tokio::select! {
            biased;
            event = execution.next() => event.expect("no error"),
            () = tokio::task::yield_now() => continue,
        };
        match event.expect("not over") {
            Event::Output { data, .. } => received.extend_from_slice(&data),
            Event::Finished(_) => break,
        }
    }
    let expected: Vec<u8> = (0..200u8).flat_map(|i| vec![i; 1000]).collect();
    assert_eq!(received, expected);
}

#[tokio::test]
async fn more_executions_than_a_session_can_carry_are_busy_and_calls_still_go_through() {
    let (client, mut agent) = connected().await;
    tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (op, mut stream) = agent.next().await;
            match op {
                Op::Ping(_) => say(&mut stream, Reply::Pong(Pong::default())).await,
                _ => {
                    say(&mut stream, started()).await;
                    held.push(stream);
                }
            }
        }
    });
    let mut running = Vec::new();
    let refused = loop {
        match client.execute(ExecuteRequest::default()).await {
            Ok(execution) => running.push(execution),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.refusal(), Some(Refusal::Busy));
    assert!(running.len() >= 200, "{}", running.len());
    client.ping(SOON).await.expect("a full house still answers");
    running.clear();
    client.execute(ExecuteRequest::default()).await.expect("room again");
}
