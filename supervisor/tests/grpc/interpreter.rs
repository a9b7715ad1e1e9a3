//! Code in contexts over gRPC: events and their order, contexts, deadlines, bounds, and who may.

use rekindle::config::tokens::{Quota, Scope};
use rekindle_api::v1::{self, CodeLanguage, ErrorReason, run_code_event::Event};
use rekindle_api::{Code, Status, Streaming, client::Client};
use rekindle_test_support::wait::in_time;
use tonic::Request;

use crate::place::{Place, Wishes, detail, refused, token};

fn code(sandbox: &str, code: &str) -> v1::RunCodeRequest {
    v1::RunCodeRequest { sandbox: sandbox.into(), code: code.into(), ..v1::RunCodeRequest::default() }
}

fn within(sandbox: &str, context: &str, text: &str) -> v1::RunCodeRequest {
    v1::RunCodeRequest { context: context.into(), ..code(sandbox, text) }
}

async fn next(events: &mut Streaming<v1::RunCodeEvent>) -> Result<Option<Event>, Status> {
    let message = in_time("an event", events.message()).await?;
    Ok(message.map(|message| message.event.expect("an event")))
}

async fn begin(client: &mut Client, request: v1::RunCodeRequest) -> Streaming<v1::RunCodeEvent> {
    in_time("a run", client.interpreter.run(request)).await.expect("a run").into_inner()
}

/// What a run has told.
#[derive(Debug, Default)]
struct Told {
    context: v1::CodeContext,
    stdout: String,
    stderr: String,
    results: Vec<v1::CodeResult>,
    errors: Vec<v1::CodeError>,
    end: v1::CodeEnd,
}

async fn rest(mut events: Streaming<v1::RunCodeEvent>) -> Told {
    let mut told = Told::default();
    loop {
        match next(&mut events).await.expect("an event") {
            Some(Event::Started(started)) => told.context = started.context.expect("a context"),
            Some(Event::Stdout(text)) => told.stdout.push_str(&text),
            Some(Event::Stderr(text)) => told.stderr.push_str(&text),
            Some(Event::Result(result)) => told.results.push(result),
            Some(Event::Error(error)) => told.errors.push(error),
            Some(Event::End(end)) => {
                assert!(next(&mut events).await.expect("no error").is_none(), "nothing follows the end");
                told.end = end;
                return told;
            }
            None => panic!("no end after {told:?}"),
        }
    }
}

async fn run(client: &mut Client, request: v1::RunCodeRequest) -> Told {
    rest(begin(client, request).await).await
}

async fn contexts(client: &mut Client, sandbox: &str) -> Vec<v1::CodeContext> {
    let asked = v1::ListContextsRequest { sandbox: sandbox.into() };
    client.interpreter.list_contexts(asked).await.expect("listed").into_inner().contexts
}

fn new(sandbox: &str, language: CodeLanguage, cwd: &str) -> v1::CreateContextRequest {
    v1::CreateContextRequest { sandbox: sandbox.into(), language: language.into(), cwd: cwd.into() }
}

#[tokio::test]
async fn a_run_tells_its_context_what_it_prints_and_shows_and_its_end() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let text = r#"echo one; message {"type":"result","is_main_result":true,"text":"2","png":"AAEC","chart":"{\"type\": \"line\"}","json":"{","extra":"{\"a/b\": [1]}"}; err two"#;
    let mut events = begin(&mut client, code(&id, text)).await;
    let Some(Event::Started(v1::CodeStarted { context: Some(first) })) =
        next(&mut events).await.expect("an event")
    else {
        panic!("something else came first");
    };
    assert_eq!((first.language(), &first.cwd[..]), (CodeLanguage::Python, "/home/user"));
    let told = rest(events).await;
    assert_eq!((&told.stdout[..], &told.stderr[..]), ("one\n", "two\n"));
    let [result] = &told.results[..] else { panic!("{told:?}") };
    assert!(result.is_main && result.json.is_none(), "what is no JSON is left out: {result:?}");
    assert_eq!((result.text.as_deref(), result.png.as_deref()), (Some("2"), Some(&[0, 1, 2][..])));
    assert_eq!(result.chart.as_deref(), Some(r#"{"type": "line"}"#));
    assert_eq!(result.others.get("a/b").map(String::as_str), Some("[1]"));
    assert!(told.errors.is_empty() && told.end.execution_count == 1 && told.end.duration.is_some());
    let again = run(&mut client, code(&id, "true")).await;
    assert_eq!((again.end.execution_count, &again.context), (2, &first), "the context is the same");
    let other = v1::RunCodeRequest { language: CodeLanguage::Typescript.into(), ..code(&id, "true") };
    let other = run(&mut client, other).await;
    assert_eq!((other.end.execution_count, other.context.language()), (1, CodeLanguage::Typescript));
    let audited = place.audit().into_iter().filter(|line| line["method"] == "Interpreter/Run");
    assert!(audited.map(|line| line["sandbox"] == *id).eq([true; 3]));
}

#[tokio::test]
async fn contexts_are_there_made_begun_anew_and_removed() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let first = contexts(&mut client, &id).await;
    let languages: Vec<_> = first.iter().map(v1::CodeContext::language).collect();
    assert_eq!(languages, [CodeLanguage::Python, CodeLanguage::Javascript]);
    let made = client.interpreter.create_context(new(&id, CodeLanguage::Typescript, "/tmp")).await;
    let made = made.expect("made").into_inner();
    assert_eq!((made.language(), &made.cwd[..]), (CodeLanguage::Typescript, "/tmp"));
    assert_eq!(contexts(&mut client, &id).await.last(), Some(&made));
    let mut counts = Vec::new();
    for _ in 0..2 {
        counts.push(run(&mut client, within(&id, &made.id, "true")).await.end.execution_count);
    }
    let restart = v1::RestartContextRequest { sandbox: id.clone(), context: made.id.clone() };
    client.interpreter.restart_context(restart.clone()).await.expect("begun anew");
    counts.push(run(&mut client, within(&id, &made.id, "true")).await.end.execution_count);
    assert_eq!(counts, [1, 2, 1], "it knows nothing any more");
    let remove = v1::RemoveContextRequest { sandbox: id.clone(), context: made.id.clone() };
    client.interpreter.remove_context(remove.clone()).await.expect("removed");
    assert_eq!(contexts(&mut client, &id).await, first);
    let run = client.interpreter.run(within(&id, &made.id, "true")).await;
    refused(run, Code::NotFound, ErrorReason::NotFound);
    refused(client.interpreter.restart_context(restart).await, Code::NotFound, ErrorReason::NotFound);
    refused(client.interpreter.remove_context(remove).await, Code::NotFound, ErrorReason::NotFound);
}

#[tokio::test]
async fn code_that_fails_and_a_process_that_dies_are_errors_of_the_code() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let failing = r#"message {"type":"error","name":"E","value":"v","traceback":"at 1"}"#;
    let told = run(&mut client, code(&id, failing)).await;
    let [error] = &told.errors[..] else { panic!("{told:?}") };
    assert_eq!((&error.name[..], &error.value[..], &error.traceback[..]), ("E", "v", "at 1"));
    assert_eq!(told.end.execution_count, 1);
    let died = run(&mut client, code(&id, "echo last; fail 7")).await;
    assert_eq!((&died.stdout[..], &died.errors[0].name[..]), ("last\n", "ContextEnded"));
    assert!(died.errors[0].value.contains("exit code 7"), "{died:?}");
    assert_eq!(died.errors[0].diagnosis, None, "it is the code's own wish");
    assert_eq!(run(&mut client, code(&id, "true")).await.end.execution_count, 1, "it has begun anew");
}

#[tokio::test]
async fn an_error_of_code_has_the_code_of_an_execution_and_is_counted_once() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let missing = r#"message {"type":"error","name":"ModuleNotFoundError","value":"No module named 'jsno'","traceback":"t"}"#;
    let told = run(&mut client, code(&id, &format!("{missing}; {missing}"))).await;
    let [first, second] = &told.errors[..] else { panic!("{told:?}") };
    let found = first.diagnosis.as_ref().expect("a diagnosis");
    assert_eq!(
        (&found.kind[..], &found.subject[..], &found.near[..]),
        ("missing_module", "jsno", &["json".to_owned()][..])
    );
    assert!(found.hint.starts_with("it is not installed; near it are json"), "{found:?}");
    assert_eq!(first.diagnosis, second.diagnosis);
    let counted = || {
        let text = place.service.metrics().encode();
        text.lines().find(|line| line.contains("diagnoses_total{code=\"missing_module\"}")).map(str::to_owned)
    };
    assert!(counted().is_some_and(|line| line.ends_with(" 1")), "{:?}", counted());
    let killed = run(&mut client, code(&id, "oom")).await;
    let found = killed.errors[0].diagnosis.as_ref().expect("a diagnosis");
    assert_eq!(
        (&killed.errors[0].name[..], &found.kind[..]),
        ("ContextEnded", "out_of_memory"),
        "{killed:?}"
    );
}

#[tokio::test]
async fn a_deadline_and_a_caller_that_goes_away_interrupt_the_code() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    // Its process is there before the deadline counts.
    run(&mut client, code(&id, "true")).await;
    let mut request = Request::new(code(&id, "echo begun; sleep 600000"));
    request.metadata_mut().insert("grpc-timeout", "300m".parse().expect("a deadline"));
    let mut late = in_time("a run", client.interpreter.run(request)).await.expect("a run").into_inner();
    let status = loop {
        match next(&mut late).await {
            Ok(event) => assert!(!matches!(event, None | Some(Event::End(_))), "{event:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), detail(&status).reason()), (Code::DeadlineExceeded, ErrorReason::Deadline));
    let after = run(&mut client, code(&id, "echo after")).await;
    assert_eq!((after.end.execution_count, &after.stdout[..]), (3, "after\n"), "the same process");
    let mut left = begin(&mut client, code(&id, "echo begun; sleep 600000")).await;
    while !matches!(next(&mut left).await, Ok(Some(Event::Stdout(_)))) {}
    let mut other = place.client().await;
    let waiting = run(&mut other, code(&id, "echo next"));
    let leaving = async {
        place.until_under_way(&id, 2).await;
        drop(left);
    };
    let (told, ()) = tokio::join!(waiting, leaving);
    assert_eq!((told.end.execution_count, &told.stdout[..]), (5, "next\n"), "{told:?}");
}

#[tokio::test]
async fn what_cannot_be_met_is_refused_with_a_reason() {
    let place = Place::new().await;
    let mut client = place.client().await;
    let (id, _) = place.sandbox(&mut client).await;
    let invalid = (Code::InvalidArgument, ErrorReason::InvalidRequest);
    let python = contexts(&mut client, &id).await.remove(0).id;
    let both = v1::RunCodeRequest { language: CodeLanguage::Python.into(), ..within(&id, &python, "true") };
    for (request, (code, reason)) in [
        (both, invalid),
        (v1::RunCodeRequest { language: 77, ..code(&id, "true") }, invalid),
        (v1::RunCodeRequest { language: 77, ..within(&id, &python, "true") }, invalid),
        (v1::RunCodeRequest { env: [("A=B".into(), "".into())].into(), ..code(&id, "true") }, invalid),
        (code(&id, &"x".repeat((1 << 20) + 1)), (Code::InvalidArgument, ErrorReason::LimitExceeded)),
        (within(&id, "no such context", "true"), (Code::NotFound, ErrorReason::NotFound)),
        (code("sb-nothing", "true"), (Code::NotFound, ErrorReason::UnknownSandbox)),
    ] {
        refused(client.interpreter.run(request).await, code, reason);
    }
    let mut made = 0;
    let full = loop {
        match client.interpreter.create_context(new(&id, CodeLanguage::Bash, "")).await {
            Ok(_) => made += 1,
            full => break full,
        }
        assert!(made < 100, "contexts without end");
    };
    assert!(refused(full, Code::ResourceExhausted, ErrorReason::Busy).retryable);
    assert_eq!(made, 14, "16 with those that are there from the beginning");
}

#[tokio::test]
async fn contexts_are_their_tenants_own_and_need_the_scope() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let all = [Scope::Create, Scope::Exec];
    let mine = token(&file, "mine", "acme", &all, Quota::default());
    let unable = token(&file, "unable", "acme", &[Scope::Create, Scope::Files], Quota::default());
    let theirs = token(&file, "theirs", "other", &all, Quota::default());
    let wishes = Wishes { tokens: Some(file), socket_requires_token: true, ..Wishes::default() };
    let place = Place::with(wishes).await;
    let mut client = place.client_with(Some(&mine)).await;
    let (id, _) = place.sandbox(&mut client).await;
    let asked = v1::ListContextsRequest { sandbox: id.clone() };
    for (token, code_, reason) in [
        (&unable, Code::PermissionDenied, ErrorReason::MissingScope),
        (&theirs, Code::NotFound, ErrorReason::UnknownSandbox),
    ] {
        let mut other = place.client_with(Some(token)).await;
        refused(other.interpreter.run(code(&id, "true")).await, code_, reason);
        refused(other.interpreter.list_contexts(asked.clone()).await, code_, reason);
        let create = new(&id, CodeLanguage::Python, "");
        refused(other.interpreter.create_context(create).await, code_, reason);
    }
    assert_eq!(run(&mut client, code(&id, "true")).await.end.execution_count, 1);
}
