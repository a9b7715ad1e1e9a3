//! The service `Sandboxes`: each call asks the service on behalf of its admitted caller, and puts the answer into words.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::v1::{self, execute_input::Input as Word, sandboxes_server::Sandboxes};
use tonic::{Request, Response, Status, Streaming};

use super::call_record::CallRecord;
use super::live::{self, Inbox};
use super::{messages, requests, status};
use crate::door::Authenticator;
use crate::service::{Caller, Input, ListQuery, SandboxView, Scope, Service, ServiceError, WatchQuery};

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Clone)]
pub(super) struct SandboxesApi {
    pub service: Service,
    /// What knows how a caller reaches the ports of its sandboxes.
    pub authenticator: Arc<Authenticator>,
}

impl SandboxesApi {
    /// A sandbox for who made it or looks at it: also how to reach what its programs serve.
    fn with_ports(&self, caller: &Caller, view: SandboxView) -> Response<v1::Sandbox> {
        let ports = self.authenticator.ports(caller, &view).map(messages::ports);
        Response::new(v1::Sandbox { ports, ..messages::sandbox(view) })
    }
}

fn invalid(what: &'static str) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

#[tonic::async_trait]
impl Sandboxes for SandboxesApi {
    type ExecuteStreamStream = Answers<v1::ExecuteEvent>;
    type WatchStream = Answers<v1::SandboxEvent>;

    async fn create(
        &self,
        request: Request<v1::CreateSandboxRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let created = match requests::create(request.into_inner()) {
            Ok((spec, id)) => record.bounded(self.service.create(&caller, spec, &id)).await,
            Err(error) => Err(error),
        };
        if let Ok(view) = &created {
            record.about(view.id.as_str());
        }
        record.close(created.map(|view| self.with_ports(&caller, view)))
    }

    async fn get(&self, request: Request<v1::GetSandboxRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::GetSandboxRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let found = record.bounded(self.service.get(&caller, &sandbox)).await;
        record.close(found.map(|view| self.with_ports(&caller, view)))
    }

    async fn list(
        &self,
        request: Request<v1::ListSandboxesRequest>,
    ) -> Result<Response<v1::ListSandboxesResponse>, Status> {
        let (record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        let query = ListQuery {
            metadata: request.metadata,
            include_ended: request.include_ended,
            page_size: request.page_size as usize,
            page_token: request.page_token,
            ..ListQuery::default()
        };
        let page = record.bounded(self.service.list(&caller, &query)).await;
        record.close(page.map(|page| {
            Response::new(v1::ListSandboxesResponse {
                sandboxes: page.sandboxes.into_iter().map(messages::sandbox).collect(),
                next_page_token: page.next,
            })
        }))
    }

    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        record.enter(&self.service, &caller, Scope::Exec, &request.get_ref().sandbox).await;
        let executed = match requests::execute(request.into_inner()) {
            Ok((sandbox, spec, stdin, key)) => {
                record.bounded(self.service.execute(&caller, &sandbox, spec, stdin, &key)).await
            }
            Err(error) => Err(error),
        };
        record.close(executed.map(|executed| Response::new(messages::executed(&executed))))
    }

    async fn execute_stream(
        &self,
        request: Request<Streaming<v1::ExecuteInput>>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let mut words = request.into_inner();
        let first = match words.message().await {
            Ok(message) => message.and_then(|message| message.input),
            Err(status) => return Err(record.undecoded(&status)),
        };
        let Some(Word::Start(v1::ExecuteStart { request: Some(request), terminal, live_stdin })) = first
        else {
            return record.close(Err(invalid("the first message must start the program")));
        };
        record.enter(&self.service, &caller, Scope::Exec, &request.sandbox).await;
        let prepared = requests::execute(request).and_then(|(sandbox, spec, stdin, key)| {
            if !stdin.is_empty() || !key.is_empty() {
                return Err(invalid("stdin and idempotency_key are for Execute"));
            }
            Ok((sandbox, spec, terminal.map(requests::terminal).transpose()?))
        });
        let terminal = terminal.is_some();
        let input = if live_stdin { Input::Live } else { Input::None };
        let started = match prepared {
            Ok((sandbox, spec, terminal)) => {
                self.service.execute_live(&caller, &sandbox, &spec, input, terminal).await
            }
            Err(error) => Err(error),
        };
        match started {
            Ok(mut live) => {
                let inbox = Inbox { words, stdin: live.take_stdin(), steering: live.steering(), terminal };
                Ok(Response::new(Box::pin(live::events(live, inbox, record))))
            }
            Err(error) => record.close(Err(error)),
        }
    }

    async fn pause(
        &self,
        request: Request<v1::PauseSandboxRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::PauseSandboxRequest { sandbox, without_memory } = request.into_inner();
        record.about(&sandbox);
        let paused = match without_memory {
            false => record.bounded(self.service.pause(&caller, &sandbox)).await,
            true => record.bounded(self.service.pause_without_memory(&caller, &sandbox)).await,
        };
        record.close(paused.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn resume(
        &self,
        request: Request<v1::ResumeSandboxRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ResumeSandboxRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let resumed = record.bounded(self.service.resume(&caller, &sandbox)).await;
        record.close(resumed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn set_timeout(
        &self,
        request: Request<v1::SetSandboxTimeoutRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::SetSandboxTimeoutRequest { sandbox, ttl, idle_timeout, on_timeout } = request.into_inner();
        record.about(&sandbox);
        let times = requests::time("ttl", ttl).and_then(|ttl| {
            let idle = requests::time("idle_timeout", idle_timeout)?;
            Ok((ttl, idle, requests::on_timeout(on_timeout)?))
        });
        let set =
            times.and_then(|(ttl, idle, then)| self.service.set_timeout(&caller, &sandbox, ttl, idle, then));
        record.close(set.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn destroy(
        &self,
        request: Request<v1::DestroySandboxRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::DestroySandboxRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let destroyed = record.bounded(self.service.destroy(&caller, &sandbox)).await;
        record.close(destroyed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn watch(
        &self,
        request: Request<v1::WatchSandboxesRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        record.about(&request.sandbox);
        let query = WatchQuery {
            sandbox: request.sandbox,
            metadata: request.metadata,
            include_existing: request.include_existing,
        };
        let watch = record.close(self.service.watch(&caller, query).await)?;
        let events = unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(Some(event)) => Some((Ok(messages::event(event)), Some(watch))),
                Ok(None) => None,
                Err(error) => Some((Err(status::status(&error)), None)),
            }
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn timeline(
        &self,
        request: Request<v1::SandboxTimelineRequest>,
    ) -> Result<Response<v1::SandboxTimelineResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::SandboxTimelineRequest { sandbox, trace } = request.into_inner();
        record.about(&sandbox);
        let told = match trace.as_str() {
            "" => self.service.timeline(&caller, &sandbox).map(|all| messages::timeline(&sandbox, all)),
            trace => {
                let sandbox = Some(sandbox.as_str()).filter(|id| !id.is_empty());
                record.bounded(self.service.trace(&caller, trace, sandbox)).await.map(messages::trace)
            }
        };
        record.close(told.map(Response::new))
    }
}
