//! The contexts of the server in this process: code that says what it is told, and fails when it is `fail`.

use futures::{StreamExt as _, stream};
use rekindle_api::v1::interpreter_server::Interpreter;
use rekindle_api::v1::run_code_event::Event;
use rekindle_api::v1::*;
use rekindle_api::{Code, Request};
use tonic::Response;

use super::run;
use super::server::{Answer, Answers, Fake, Server, refuse};

fn context() -> CodeContext {
    CodeContext { id: "c-1".into(), language: CodeLanguage::Python.into(), cwd: "/home/user".into() }
}

fn known<T>(context: &str, answer: T) -> Answer<T> {
    match context {
        "" | "c-1" => Ok(Response::new(answer)),
        _ => refuse(Code::NotFound, ErrorReason::NotFound, "no such context"),
    }
}

#[tonic::async_trait]
impl Interpreter for Fake {
    type RunStream = Answers<RunCodeEvent>;

    async fn run(&self, request: Request<RunCodeRequest>) -> Answer<Self::RunStream> {
        let deadline = request.metadata().get("grpc-timeout").is_some();
        let request = request.into_inner();
        let (context_id, code) = (request.context.clone(), request.code.clone());
        self.0.lock().expect("state").codes.push((request, deadline));
        let mut events = vec![
            Event::Started(CodeStarted { context: Some(context()) }),
            Event::Stdout("out\n".into()),
            Event::Result(CodeResult { png: Some(vec![1, 2, 3].into()), ..CodeResult::default() }),
        ];
        if code == "fail" {
            events.push(Event::Error(CodeError { name: "E".into(), ..CodeError::default() }));
        }
        let end = match code.as_str() {
            "cut" => None,
            "late" => Some(refuse(Code::DeadlineExceeded, ErrorReason::Deadline, "too late")),
            _ => Some(Ok(RunCodeEvent { event: Some(Event::End(CodeEnd::default())) })),
        };
        let events = events.into_iter().map(|event| Ok(RunCodeEvent { event: Some(event) }));
        known(&context_id, stream::iter(events.chain(end)).boxed())
    }

    async fn create_context(&self, request: Request<CreateContextRequest>) -> Answer<CodeContext> {
        let CreateContextRequest { language, cwd, .. } = request.into_inner();
        self.0.lock().expect("state").contexts.push(format!("create {language} {cwd}"));
        Ok(Response::new(context()))
    }

    async fn list_contexts(&self, _: Request<ListContextsRequest>) -> Answer<ListContextsResponse> {
        Ok(Response::new(ListContextsResponse { contexts: vec![context()] }))
    }

    async fn restart_context(
        &self,
        request: Request<RestartContextRequest>,
    ) -> Answer<RestartContextResponse> {
        let name = request.into_inner().context;
        self.0.lock().expect("state").contexts.push(format!("restart {name}"));
        known(&name, RestartContextResponse {})
    }

    async fn remove_context(&self, request: Request<RemoveContextRequest>) -> Answer<RemoveContextResponse> {
        let name = request.into_inner().context;
        self.0.lock().expect("state").contexts.push(format!("remove {name}"));
        known(&name, RemoveContextResponse {})
    }
}

#[tokio::test]
async fn code_ends_with_one_when_it_fails_and_says_where_it_was_to_run() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.ts");
    std::fs::write(&file, "from a file").expect("written");
    let file = file.display().to_string();
    let save = dir.path().join("images");
    let saved = save.display().to_string();
    for (words, code) in [
        (&["code", "aa", "-c", "fine", "--env", "A=b", "--timeout", "2m"][..], 0),
        (&["code", "aa", "-c", "fail", "--context", "c-1"], 1),
        (&["code", "aa", "--json", "-c", "fail", "--language", "bash"], 1),
        (&["code", "aa", &file, "--save", &saved], 0),
        (&["code", "aa", "-c", "late"], 124),
    ] {
        assert_eq!(run(&server, words).await.expect("it ran"), code, "{words:?}");
    }
    assert_eq!(std::fs::read(save.join("result-1.png")).expect("saved"), [1, 2, 3]);
    let error = run(&server, &["code", "aa", "-c", "x", "--context", "c-9"]).await.expect_err("none");
    assert_eq!(error.to_string(), "no such context\nhint: ask nicely");
    let error = run(&server, &["code", "aa", "-c", "cut"]).await.expect_err("no end").to_string();
    assert!(error.starts_with("the server ended the run without an end\nhint: "), "{error}");
    let state = server.state.lock().expect("state");
    let asked: Vec<_> =
        state.codes.iter().map(|(one, late)| (&one.code[..], one.language(), *late)).collect();
    let (none, bash, typescript) = (CodeLanguage::Unspecified, CodeLanguage::Bash, CodeLanguage::Typescript);
    assert_eq!(
        asked[..4],
        [
            ("fine", none, true),
            ("fail", none, false),
            ("fail", bash, false),
            ("from a file", typescript, false)
        ]
    );
    let (first, second) = (&state.codes[0].0, &state.codes[1].0);
    assert_eq!((&first.env["A"][..], &first.context[..], &second.context[..]), ("b", "", "c-1"));
}

#[tokio::test]
async fn contexts_are_listed_made_begun_anew_and_removed() {
    let server = Server::start();
    for words in [
        &["context", "ls", "aa"][..],
        &["context", "ls", "aa", "--json"],
        &["context", "create", "aa", "--language", "js", "--cwd", "/tmp"],
        &["context", "restart", "aa", "c-1"],
        &["context", "rm", "aa", "c-1"],
    ] {
        assert_eq!(run(&server, words).await.expect("done"), 0, "{words:?}");
    }
    assert!(run(&server, &["context", "rm", "aa", "c-2"]).await.is_err());
    let state = server.state.lock().expect("state");
    assert_eq!(state.contexts, ["create 2 /tmp", "restart c-1", "remove c-1", "remove c-2"]);
}
