//! Execute: outcomes, output, input, deadlines, cancellation.

use bytes::Bytes;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::timeline_outcome::Outcome as Came;
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Request, Status};
use rekindle_protocol::wire::ErrorCode;
use rekindle_test_support::wait::{in_time, until};
use tonic::Response;

use crate::files::{file, upload};
use crate::place::{Place, Wishes, millis, output, refused, shell};

#[tokio::test]
async fn every_outcome_is_told_apart() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let cases = [
        ("echo out; err on; true", Outcome::ExitCode(0)),
        ("fail 3", Outcome::ExitCode(3)),
        ("nonsense", Outcome::ExitCode(127)),
        ("kill 11", Outcome::Signal(11)),
        ("oom", Outcome::OutOfMemory(v1::ExecutionOutOfMemory {})),
        ("sleep 60000", Outcome::TimedOut(v1::ExecutionTimedOut {})),
    ];
    for (number, (line, outcome)) in cases.into_iter().enumerate() {
        let timeout = millis(50).filter(|_| line.starts_with("sleep"));
        let request = v1::ExecuteRequest { timeout, ..shell(&id, line) };
        let done = client.sandboxes.execute(request).await.expect(line).into_inner();
        assert_eq!(done.ended(), Some(outcome), "{line}");
        assert_eq!(done.execution, format!("ex-{}", number + 1));
        assert!(!done.replayed);
    }
    let said = client.sandboxes.execute(shell(&id, "echo out; err on")).await.expect("ran").into_inner();
    assert_eq!(said.stdout.expect("stdout").text, "out\n");
    assert_eq!(said.stderr.expect("stderr").text, "on\n");
    assert!(said.usage.expect("usage").wall_time.is_some_and(|time| time.nanos > 0));
}

#[tokio::test]
async fn a_program_is_a_command_a_line_or_code_with_variables_of_its_own() {
    use v1::program::Program;
    let place = Place::new().await;
    let mut client = place.client().await;
    let create = v1::CreateSandboxRequest { env: [("A".into(), "1".into())].into(), ..Default::default() };
    let (id, guest) = place.sandbox_with(&mut client, create).await;
    let code = |language: v1::Language| {
        let source = "env A".to_owned();
        Program::Code(v1::Code { language: language.into(), source, plain_interpreter: false })
    };
    let command = Program::Command(v1::Command { argv: vec!["env".into(), "A".into()] });
    for (program, warm) in [(command, false), (code(v1::Language::Python), true)] {
        let program = Some(v1::Program { program: Some(program) });
        let request = v1::ExecuteRequest { program, ..shell(&id, "") };
        let done = client.sandboxes.execute(request.clone()).await.expect("ran").into_inner();
        assert_eq!((done.stdout.expect("stdout").text.as_str(), done.warm_interpreter), ("1\n", warm));
        let own = v1::ExecuteRequest { env: [("A".into(), "2".into())].into(), ..request };
        let done = client.sandboxes.execute(own).await.expect("ran").into_inner();
        assert_eq!(done.stdout.expect("stdout").text, "2\n", "its own variables win");
    }
    let ran = guest.executed().len();
    let wrong = [None, Some(Program::Command(v1::Command::default())), Some(code(v1::Language::Unspecified))];
    for program in wrong {
        let program = Some(v1::Program { program });
        let refusal = client.sandboxes.execute(v1::ExecuteRequest { program, ..shell(&id, "") }).await;
        refused(refusal, Code::InvalidArgument, ErrorReason::InvalidRequest);
    }
    assert_eq!(guest.executed().len(), ran, "what makes no sense never reaches the guest");
}

#[tokio::test]
async fn an_execution_has_a_clock_of_its_own_where_one_is_asked_for() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let at = |seconds| Some(rekindle_api::Timestamp { seconds, nanos: 7 });
    let berlin = || "Europe/Berlin".to_owned();
    let plain = shell(&id, "clock");
    for (request, clock) in [
        (plain.clone(), "0 \n"),
        (v1::ExecuteRequest { now: at(1_704_164_645), ..plain.clone() }, "1704164645000000007 \n"),
        (
            v1::ExecuteRequest { now: at(1_704_164_645), timezone: berlin(), ..plain.clone() },
            "1704164645000000007 Europe/Berlin\n",
        ),
        (v1::ExecuteRequest { timezone: berlin(), ..plain.clone() }, "0 Europe/Berlin\n"),
    ] {
        let done = client.sandboxes.execute(request).await.expect("ran").into_inner();
        assert_eq!(done.stdout.expect("stdout").text, clock);
    }
    let ran = guest.executed().len();
    let impossible = Some(rekindle_api::Timestamp { seconds: 1_704_164_645, nanos: -1 });
    for now in [at(0), at(315_532_799), at(7_258_118_400), at(i64::MAX), at(i64::MIN), impossible] {
        let request = v1::ExecuteRequest { now, ..plain.clone() };
        let detail = refused(
            client.sandboxes.execute(request).await,
            Code::InvalidArgument,
            ErrorReason::InvalidRequest,
        );
        assert!(detail.hint.contains("2024-01-02T03:04:05Z"), "{detail:?}");
    }
    for timezone in ["../../etc/passwd", "/etc/localtime", "Europe/", "UTC+1,x"] {
        let request = v1::ExecuteRequest { timezone: timezone.into(), ..plain.clone() };
        let detail = refused(
            client.sandboxes.execute(request).await,
            Code::InvalidArgument,
            ErrorReason::InvalidRequest,
        );
        assert!(detail.hint.contains("zoneinfo"), "{detail:?}");
    }
    assert_eq!(guest.executed().len(), ran, "what makes no sense never reaches the guest");
}

#[tokio::test]
async fn a_time_zone_that_the_image_does_not_have_is_refused_with_names_that_it_has() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let asked = |timezone: &str| v1::ExecuteRequest { timezone: timezone.into(), ..shell(&id, "clock") };
    fn refused_with<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> String {
        refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest).hint
    }
    guest.refuse_next(ErrorCode::InvalidArgument);
    let none = refused_with(client.sandboxes.execute(asked("Europe/Berlin")).await);
    assert!(none.contains("no time zones") && none.contains("TZ in `env`"), "{none}");

    for name in ["Europe/Berlin", "America/Argentina/Salta", "zone.tab", "Europe/\u{1b}Berlin"] {
        let path = format!("/usr/share/zoneinfo/{name}");
        upload(&mut client, file(&id, &path), &Bytes::new()).await.expect("uploaded");
    }
    for (wrong, right) in [("Berlin", "Europe/Berlin"), ("America/Salto", "America/Argentina/Salta")] {
        guest.refuse_next(ErrorCode::InvalidArgument);
        let hint = refused_with(client.sandboxes.execute(asked(wrong)).await);
        assert!(hint.starts_with(&format!("did you mean {right}? `ls /usr/share/zoneinfo`")), "{hint}");
    }
    guest.refuse_next(ErrorCode::InvalidArgument);
    let program = v1::StartExecutionRequest { request: Some(asked("Berlin")), ..Default::default() };
    let hint = refused_with(client.executions.start(program).await);
    assert!(hint.contains("Europe/Berlin"), "{hint}");
    // It was something else.
    guest.refuse_next(ErrorCode::InvalidArgument);
    assert_eq!(refused_with(client.sandboxes.execute(asked("Europe/Berlin")).await), "");
}

#[tokio::test]
async fn output_is_shortened_within_the_servers_maximum_and_kept_whole() {
    let service = |config: &mut rekindle::service::ServiceConfig| config.max_output_limit = 10_000;
    let place = Place::with(Wishes { service, ..Wishes::default() }).await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for (asked, most) in [(None, 4_000), (Some(1_000), 1_000), (Some(10_000), 10_000)] {
        let request = v1::ExecuteRequest { output_limit: asked, ..shell(&id, "flood 50000") };
        let done = client.sandboxes.execute(request).await.expect("ran").into_inner();
        let stdout = done.stdout.expect("stdout");
        let shown = stdout.text.chars().count();
        assert!(stdout.truncated && (most / 2..=most).contains(&shown), "{asked:?}: {shown}");
        assert_eq!((stdout.total_bytes, stdout.spilled_bytes), (50_000, 50_000));
        let read = v1::DownloadFileRequest {
            sandbox: id.clone(),
            path: stdout.spilled_path,
            max_bytes: 0,
            user: String::new(),
        };
        let (content, end) = crate::files::download(&mut client, read).await.expect("kept");
        assert_eq!((content.len(), end.size), (50_000, 50_000));
    }
    let request = v1::ExecuteRequest { output_limit: Some(10_001), ..shell(&id, "true") };
    refused(client.sandboxes.execute(request).await, Code::InvalidArgument, ErrorReason::LimitExceeded);
}

#[tokio::test]
async fn input_of_any_length_arrives_and_may_be_ignored() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    for length in [1, 64 * 1024, 512 * 1024 + 1, 3 << 20] {
        let stdin = vec![b'x'; length];
        let request = v1::ExecuteRequest { stdin: stdin.clone().into(), ..shell(&id, "cat") };
        let done = in_time("cat", client.sandboxes.execute(request)).await.expect("ran").into_inner();
        assert_eq!(done.stdout.expect("stdout").total_bytes, length as u64);
        let ignored = v1::ExecuteRequest { stdin: stdin.into(), ..shell(&id, "echo no") };
        let done = in_time("echo", client.sandboxes.execute(ignored)).await.expect("ran").into_inner();
        assert_eq!(done.stdout.expect("stdout").text, "no\n", "{length}");
    }
}

#[tokio::test]
async fn a_deadline_reaches_the_guest_and_is_told_with_its_reason() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    // Set as a header, not with `set_timeout`: the client must not keep it, the server must.
    let mut request = Request::new(shell(&id, "sleep 600000"));
    request.metadata_mut().insert("grpc-timeout", "300m".parse().expect("a header"));
    let mut raw = crate::raw::client(&place.socket).await;
    let status = in_time("the deadline", raw.execute(request)).await.expect_err("too late");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert_eq!(crate::place::detail(&status).reason(), ErrorReason::Deadline);
    until("killed", || guest.running() == 0).await;
    assert_eq!(output(&mut client, &id, "echo alive").await, "alive\n");
    let timeline = client
        .sandboxes
        .timeline(v1::SandboxTimelineRequest { sandbox: id, ..Default::default() })
        .await
        .expect("told");
    assert!(matches!(timeline.into_inner().entries[1].came(), Some(Came::Cancelled(_))));
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_program_along() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let call = tokio::spawn({
        let (mut client, request) = (client.clone(), shell(&id, "sleep 600000"));
        async move { client.sandboxes.execute(request).await }
    });
    until("running", || guest.running() == 1).await;
    call.abort();
    until("killed", || guest.running() == 0).await;
    // And so when the whole connection goes.
    let mut other = place.client().await;
    let call = tokio::spawn({
        let request = shell(&id, "sleep 600000");
        async move { other.sandboxes.execute(request).await }
    });
    until("running", || guest.running() == 1).await;
    call.abort();
    until("killed", || guest.running() == 0).await;
    assert_eq!(output(&mut client, &id, "echo alive").await, "alive\n");
}

#[tokio::test]
async fn many_programs_run_side_by_side() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, guest) = place.sandbox(&mut client).await;
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let (mut client, id) = (client.clone(), id.clone());
            tokio::spawn(async move { output(&mut client, &id, &format!("sleep 300; echo {number}")).await })
        })
        .collect();
    until("all of them run", || guest.running() == 20).await;
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.expect("no panic"), format!("{number}\n"));
    }
    until("none of them runs", || guest.running() == 0).await;
}
