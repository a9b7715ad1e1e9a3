//! The service `Executions`: programs that outlive the call that starts them. Each call asks the service on behalf of
//! its admitted caller, and puts the answer into words. Nothing here ends a program by being dropped.

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::v1::{self, execute_event::Event, executions_server::Executions};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status};

use super::call_record::CallRecord;
use super::{messages, requests, status};
use crate::agent::OutputStream;
use crate::service::{AttachEvent, Attachment, Input, Scope, Service, ServiceError};

/// A stream of events.
type Events = Pin<Box<dyn Stream<Item = Result<v1::ExecuteEvent, Status>> + Send>>;

/// The service.
#[derive(Clone)]
pub(super) struct ExecutionsApi {
    pub service: Service,
}

fn invalid(what: &'static str) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

#[tonic::async_trait]
impl Executions for ExecutionsApi {
    type AttachStream = Events;

    async fn start(
        &self,
        request: Request<v1::StartExecutionRequest>,
    ) -> Result<Response<v1::DetachedExecution>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::StartExecutionRequest { request, terminal, live_stdin } = request.into_inner();
        let Some(request) = request else {
            return record.close(Err(invalid("there is nothing to start")));
        };
        record.enter(&self.service, &caller, Scope::Exec, &request.sandbox).await;
        let prepared = requests::execute(request).and_then(|(sandbox, spec, stdin, key)| {
            if !stdin.is_empty() || !key.is_empty() {
                return Err(invalid("stdin and idempotency_key are for Execute"));
            }
            Ok((sandbox, spec, terminal.map(requests::terminal).transpose()?))
        });
        let input = if live_stdin { Input::Live } else { Input::None };
        let started = match prepared {
            Ok((sandbox, spec, terminal)) => {
                let start = self.service.start_detached(&caller, &sandbox, &spec, input, terminal);
                record.bounded(start).await
            }
            Err(error) => Err(error),
        };
        record.close(started.map(|job| Response::new(messages::detached(job))))
    }

    async fn list(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ListExecutionsRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let jobs = self.service.detached(&caller, &sandbox);
        record.close(jobs.map(|jobs| {
            let executions = jobs.into_iter().map(messages::detached).collect();
            Response::new(v1::ListExecutionsResponse { executions })
        }))
    }

    async fn attach(
        &self,
        request: Request<v1::AttachExecutionRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::AttachExecutionRequest { sandbox, execution, from_now } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        match self.service.attach(&caller, &sandbox, &execution, from_now) {
            Ok(attached) => Ok(Response::new(Box::pin(events(attached, record)))),
            Err(error) => record.close(Err(error)),
        }
    }

    async fn send_input(
        &self,
        request: Request<v1::SendInputRequest>,
    ) -> Result<Response<v1::SendInputResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::SendInputRequest { sandbox, execution, data, end } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let sent = record.bounded(self.service.send_input(&caller, &sandbox, &execution, data, end)).await;
        record.close(sent.map(|()| Response::new(v1::SendInputResponse {})))
    }

    async fn signal(
        &self,
        request: Request<v1::SignalExecutionRequest>,
    ) -> Result<Response<v1::SignalExecutionResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::SignalExecutionRequest { sandbox, execution, signal, everyone } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let send = self.service.signal_detached(&caller, &sandbox, &execution, signal, everyone);
        let sent = record.bounded(send).await;
        record.close(sent.map(|()| Response::new(v1::SignalExecutionResponse {})))
    }

    async fn resize(
        &self,
        request: Request<v1::ResizeExecutionRequest>,
    ) -> Result<Response<v1::ResizeExecutionResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ResizeExecutionRequest { sandbox, execution, size } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let resized = match requests::terminal(size.unwrap_or_default()) {
            Ok(size) => {
                record.bounded(self.service.resize_detached(&caller, &sandbox, &execution, size)).await
            }
            Err(error) => Err(error),
        };
        record.close(resized.map(|()| Response::new(v1::ResizeExecutionResponse {})))
    }

    async fn wait(
        &self,
        request: Request<v1::WaitExecutionRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::WaitExecutionRequest { sandbox, execution } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Exec, &sandbox).await;
        let ended = record.bounded(self.service.wait_detached(&caller, &sandbox, &execution)).await;
        record.close(ended.map(|executed| Response::new(messages::executed(&executed))))
    }
}

/// What someone attached is told, and how far that is.
struct Outbox {
    attached: Attachment,
    record: Option<CallRecord>,
    deadline: Option<(Instant, Duration)>,
    first: bool,
}

/// Everything someone attached is told.
fn events(
    attached: Attachment,
    record: CallRecord,
) -> impl Stream<Item = Result<v1::ExecuteEvent, Status>> + Send + 'static {
    let deadline = record.within().map(|within| (Instant::now() + within, within));
    let outbox = Outbox { attached, record: Some(record), deadline, first: true };
    unfold(outbox, |mut outbox| async move {
        let event = outbox.next().await?;
        Some((event.map(|event| v1::ExecuteEvent { event: Some(event) }), outbox))
    })
}

impl Outbox {
    async fn next(&mut self) -> Option<Result<Event, Status>> {
        // Nothing follows the end, which has closed the record.
        self.record.as_ref()?;
        if std::mem::take(&mut self.first) {
            let attached = &self.attached;
            let started = messages::started(attached.id(), attached.pid(), &attached.spilled());
            return Some(Ok(Event::Started(started)));
        }
        let late = async {
            match self.deadline {
                Some((at, after)) => {
                    sleep_until(at).await;
                    after
                }
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = self.attached.next() => event,
            after = late => Err(ServiceError::Deadline { after }),
        };
        match event {
            Ok(Some(AttachEvent::Output { stream: OutputStream::Stdout, data })) => {
                Some(Ok(Event::Stdout(data)))
            }
            Ok(Some(AttachEvent::Output { stream: OutputStream::Stderr, data })) => {
                Some(Ok(Event::Stderr(data)))
            }
            Ok(Some(AttachEvent::Missed { stdout, stderr })) => {
                Some(Ok(Event::Missed(messages::missed(stdout, stderr, &self.attached.spilled()))))
            }
            Ok(Some(AttachEvent::Finished(executed))) => {
                self.end(&Ok(()));
                Some(Ok(Event::Finished(messages::executed(&executed))))
            }
            Ok(None) => None,
            Err(error) => {
                let status = status::status(&error);
                self.end(&Err(error));
                Some(Err(status))
            }
        }
    }

    fn end(&mut self, result: &Result<(), ServiceError>) {
        if let Some(mut record) = self.record.take() {
            record.settle(result);
        }
    }
}
