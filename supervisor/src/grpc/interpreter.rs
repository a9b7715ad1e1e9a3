//! The service `Interpreter`: contexts, and code that is run in them. Each call asks the service on behalf of its
//! admitted caller, and puts the answer into words. A run whose stream is dropped is interrupted.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::time::duration;
use rekindle_api::v1::{self, interpreter_server::Interpreter, run_code_event::Event};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status};

use super::call_record::CallRecord;
use super::messages::diagnosis;
use super::{code_result, status};
use crate::service::{
    CodeError, CodeEvent, CodeLanguage, CodeRun, ContextChoice, ContextView, Scope, Service, ServiceError,
};

/// A stream of events.
type Events = Pin<Box<dyn Stream<Item = Result<v1::RunCodeEvent, Status>> + Send>>;

/// The service.
#[derive(Clone)]
pub(super) struct InterpreterApi {
    pub service: Service,
}

fn invalid(what: &'static str) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

#[tonic::async_trait]
impl Interpreter for InterpreterApi {
    type RunStream = Events;

    async fn run(&self, request: Request<v1::RunCodeRequest>) -> Result<Response<Self::RunStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &request.sandbox).await;
        let begun = match choice(&request) {
            Ok(choice) => {
                let v1::RunCodeRequest { sandbox, code, env, .. } = &request;
                record.bounded(self.service.run_code(&caller, sandbox, &choice, code, env)).await
            }
            Err(error) => Err(error),
        };
        match begun {
            Ok(run) => Ok(Response::new(Box::pin(events(run, record)))),
            Err(error) => record.close(Err(error)),
        }
    }

    async fn create_context(
        &self,
        request: Request<v1::CreateContextRequest>,
    ) -> Result<Response<v1::CodeContext>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::CreateContextRequest { sandbox, language: asked, cwd } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let made = match language(asked) {
            Ok(language) => {
                record.bounded(self.service.create_context(&caller, &sandbox, language, Some(&cwd))).await
            }
            Err(error) => Err(error),
        };
        record.close(made.map(|view| Response::new(context(view))))
    }

    async fn list_contexts(
        &self,
        request: Request<v1::ListContextsRequest>,
    ) -> Result<Response<v1::ListContextsResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ListContextsRequest { sandbox } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let listed = self.service.contexts(&caller, &sandbox);
        record.close(listed.map(|views| {
            let contexts = views.into_iter().map(context).collect();
            Response::new(v1::ListContextsResponse { contexts })
        }))
    }

    async fn restart_context(
        &self,
        request: Request<v1::RestartContextRequest>,
    ) -> Result<Response<v1::RestartContextResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::RestartContextRequest { sandbox, context } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let done = record.bounded(self.service.restart_context(&caller, &sandbox, &context)).await;
        record.close(done.map(|()| Response::new(v1::RestartContextResponse {})))
    }

    async fn remove_context(
        &self,
        request: Request<v1::RemoveContextRequest>,
    ) -> Result<Response<v1::RemoveContextResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::RemoveContextRequest { sandbox, context } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let done = record.bounded(self.service.remove_context(&caller, &sandbox, &context)).await;
        record.close(done.map(|()| Response::new(v1::RemoveContextResponse {})))
    }
}

/// Where code runs. A context has a language already, so that naming both would be to say one thing twice, or two.
fn choice(request: &v1::RunCodeRequest) -> Result<ContextChoice, ServiceError> {
    match (request.context.as_str(), request.language()) {
        ("", _) => Ok(ContextChoice::Default(language(request.language)?)),
        // What is no language is not taken for none.
        (id, v1::CodeLanguage::Unspecified) if request.language == 0 => {
            Ok(ContextChoice::Named(id.to_owned()))
        }
        _ => Err(invalid("only one of context and language can be given")),
    }
}

fn language(number: i32) -> Result<CodeLanguage, ServiceError> {
    match v1::CodeLanguage::try_from(number) {
        Ok(v1::CodeLanguage::Unspecified | v1::CodeLanguage::Python) => Ok(CodeLanguage::Python),
        Ok(v1::CodeLanguage::Javascript) => Ok(CodeLanguage::JavaScript),
        Ok(v1::CodeLanguage::Typescript) => Ok(CodeLanguage::TypeScript),
        Ok(v1::CodeLanguage::Bash) => Ok(CodeLanguage::Bash),
        Err(_) => Err(invalid("there is no such language")),
    }
}

fn context(view: ContextView) -> v1::CodeContext {
    let language = match view.language {
        CodeLanguage::Python => v1::CodeLanguage::Python,
        CodeLanguage::JavaScript => v1::CodeLanguage::Javascript,
        CodeLanguage::TypeScript => v1::CodeLanguage::Typescript,
        CodeLanguage::Bash => v1::CodeLanguage::Bash,
    };
    v1::CodeContext { id: view.id, language: language.into(), cwd: view.cwd }
}

/// What a caller is told of its run, and how far that is.
struct Outbox {
    run: CodeRun,
    record: Option<CallRecord>,
    deadline: Option<(Instant, Duration)>,
    began: std::time::Instant,
    first: bool,
    count: u64,
}

/// Everything a caller is told of its run.
fn events(
    run: CodeRun,
    record: CallRecord,
) -> impl Stream<Item = Result<v1::RunCodeEvent, Status>> + Send + 'static {
    let began = record.began();
    let deadline = record.within().map(|within| (Instant::from_std(began) + within, within));
    let outbox = Outbox { run, record: Some(record), deadline, began, first: true, count: 0 };
    unfold(outbox, |mut outbox| async move {
        let event = outbox.next().await?;
        Some((event.map(|event| v1::RunCodeEvent { event: Some(event) }), outbox))
    })
}

impl Outbox {
    async fn next(&mut self) -> Option<Result<Event, Status>> {
        // Nothing follows the end, which has closed the record.
        self.record.as_ref()?;
        if std::mem::take(&mut self.first) {
            let context = Some(context(self.run.context().clone()));
            return Some(Ok(Event::Started(v1::CodeStarted { context })));
        }
        loop {
            let deadline = self.deadline;
            let late = async {
                match deadline {
                    Some((at, after)) => {
                        sleep_until(at).await;
                        after
                    }
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = self.run.next() => event,
                after = late => Err(ServiceError::Deadline { after }),
            };
            return Some(match event {
                Ok(Some(CodeEvent::Count(count))) => {
                    self.count = count;
                    continue;
                }
                Ok(Some(CodeEvent::Stdout(text))) => Ok(Event::Stdout(text)),
                Ok(Some(CodeEvent::Stderr(text))) => Ok(Event::Stderr(text)),
                Ok(Some(CodeEvent::Result(result))) => Ok(Event::Result(code_result::message(*result))),
                Ok(Some(CodeEvent::Error(CodeError { name, value, traceback, diagnosis: found }))) => {
                    let diagnosis = found.as_ref().map(diagnosis);
                    Ok(Event::Error(v1::CodeError { name, value, traceback, diagnosis }))
                }
                Ok(None) => {
                    self.settle(&Ok(()));
                    let took = Some(duration(self.began.elapsed()));
                    let turns = self.run.turns();
                    Ok(Event::End(v1::CodeEnd {
                        execution_count: self.count,
                        duration: took,
                        turns_left: turns.map(|turns| turns.left),
                        warning: turns.and_then(|turns| turns.warning.clone()).unwrap_or_default(),
                    }))
                }
                Err(error) => {
                    let status = status::status(&error);
                    self.settle(&Err(error));
                    Err(status)
                }
            });
        }
    }

    fn settle(&mut self, result: &Result<(), ServiceError>) {
        if let Some(mut record) = self.record.take() {
            record.settle(result);
        }
    }
}
