//! The detached executions of the server in this process: one, `ex-1`, that has printed and ends with 5.

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use rekindle_api::v1::detached_execution::State;
use rekindle_api::v1::execute_event::Event;
use rekindle_api::v1::executions_server::Executions;
use rekindle_api::v1::*;
use rekindle_api::{Code, Request, Status};
use tonic::Response;

use super::server::{Answer, Answers, Fake, exited, refuse};

fn job() -> DetachedExecution {
    let state = Some(State::Running(ExecutionRunning {}));
    DetachedExecution { execution: "ex-1".into(), pid: 7, state, ..DetachedExecution::default() }
}

fn known<T>(execution: &str, answer: T) -> Answer<T> {
    match execution {
        "ex-1" => Ok(Response::new(answer)),
        _ => refuse(Code::NotFound, ErrorReason::NotFound, "no such execution"),
    }
}

#[tonic::async_trait]
impl Executions for Fake {
    async fn start(&self, request: Request<StartExecutionRequest>) -> Answer<DetachedExecution> {
        self.0.lock().expect("state").detached.push(request.into_inner());
        Ok(Response::new(job()))
    }

    async fn list(&self, _: Request<ListExecutionsRequest>) -> Answer<ListExecutionsResponse> {
        Ok(Response::new(ListExecutionsResponse { executions: vec![job()] }))
    }

    type AttachStream = Answers<ExecuteEvent>;

    async fn attach(&self, request: Request<AttachExecutionRequest>) -> Answer<Self::AttachStream> {
        let events = [
            Event::Started(ExecuteStarted::default()),
            Event::Missed(MissedOutput { stdout_bytes: 9, ..MissedOutput::default() }),
            Event::Stdout(Bytes::from_static(b"out\n")),
            Event::Finished(exited(5)),
        ];
        let events = events.map(|event| Ok(ExecuteEvent { event: Some(event) }));
        known(&request.into_inner().execution, stream::iter(events).boxed())
    }

    async fn send_input(&self, _: Request<SendInputRequest>) -> Answer<SendInputResponse> {
        Err(Status::unimplemented(""))
    }

    async fn signal(&self, request: Request<SignalExecutionRequest>) -> Answer<SignalExecutionResponse> {
        let SignalExecutionRequest { execution, signal, everyone, .. } = request.into_inner();
        self.0.lock().expect("state").signals.push((execution.clone(), signal, everyone));
        known(&execution, SignalExecutionResponse {})
    }

    async fn resize(&self, _: Request<ResizeExecutionRequest>) -> Answer<ResizeExecutionResponse> {
        Err(Status::unimplemented(""))
    }

    async fn wait(&self, request: Request<WaitExecutionRequest>) -> Answer<ExecuteResponse> {
        known(&request.into_inner().execution, exited(5))
    }
}
