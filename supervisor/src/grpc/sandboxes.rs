//! The service `Sandboxes`: each call asks the service on behalf of its admitted caller, and puts the answer into words.

use std::pin::Pin;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::v1::{self, execute_input::Input as Word, sandboxes_server::Sandboxes};
use tonic::{Request, Response, Status, Streaming};

use super::call_record::CallRecord;
use super::live::{self, Inbox};
use super::{files, messages, requests, status};
use crate::agent::{GuestPath, UploadOptions};
use crate::service::{Input, ListQuery, Service, ServiceError, WatchQuery};

/// A stream of answers.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service.
#[derive(Clone)]
pub(super) struct SandboxesApi {
    pub service: Service,
}

fn invalid(what: &'static str) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

#[tonic::async_trait]
impl Sandboxes for SandboxesApi {
    type ExecuteStreamStream = Answers<v1::ExecuteEvent>;
    type DownloadStream = Answers<v1::DownloadResponse>;
    type WatchStream = Answers<v1::Event>;

    async fn create(&self, request: Request<v1::CreateRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let created = match requests::create(request.into_inner()) {
            Ok(spec) => record.bounded(self.service.create(&caller, spec)).await,
            Err(error) => Err(error),
        };
        if let Ok(view) = &created {
            record.about(view.id.as_str());
        }
        record.close(created.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::GetRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let found = record.bounded(self.service.get(&caller, &sandbox)).await;
        record.close(found.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let (record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        let query = ListQuery {
            metadata: request.metadata.into_iter().collect(),
            include_ended: request.include_ended,
            page_size: request.page_size as usize,
            page_token: request.page_token,
        };
        let page = record.bounded(self.service.list(&caller, &query)).await;
        record.close(page.map(|page| {
            Response::new(v1::ListResponse {
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
        record.about(&request.get_ref().sandbox);
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
            Err(status) => return Err(record.undecoded(status)),
        };
        let Some(Word::Start(v1::ExecuteStart { request: Some(request), terminal, live_stdin })) = first
        else {
            return record.close(Err(invalid("the first message must start the program")));
        };
        record.about(&request.sandbox);
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

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let mut parts = request.into_inner();
        let first = match parts.message().await {
            Ok(message) => message.and_then(|message| message.part),
            Err(status) => return Err(record.undecoded(status)),
        };
        let Some(v1::upload_request::Part::File(file)) = first else {
            return record.close(Err(invalid("the first message must name the file")));
        };
        record.about(&file.sandbox);
        let options = UploadOptions { mode: file.mode, must_not_exist: file.must_not_exist, size: file.size };
        let uploaded = match requests::path(file.path) {
            Ok(path) => {
                let content = files::content(parts, file.size);
                record.bounded(self.service.upload(&caller, &file.sandbox, &path, options, content)).await
            }
            Err(error) => Err(error),
        };
        record.close(
            uploaded.map(|info| Response::new(v1::UploadResponse { file: Some(messages::file(&info)) })),
        )
    }

    async fn download(
        &self,
        request: Request<v1::DownloadRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::DownloadRequest { sandbox, path, max_bytes } = request.into_inner();
        record.about(&sandbox);
        match requests::path(path) {
            Ok(path) => {
                let stream = files::download(&self.service, caller, sandbox, path, max_bytes, record);
                Ok(Response::new(Box::pin(stream)))
            }
            Err(error) => record.close(Err(error)),
        }
    }

    async fn list_files(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ListFilesRequest { sandbox, path, max_entries } = request.into_inner();
        record.about(&sandbox);
        // Relative paths begin in the user's home.
        let path = if path.is_empty() {
            GuestPath::new(".").map_err(|_| invalid("no path"))
        } else {
            requests::path(path)
        };
        let listing = match path {
            Ok(path) => record.bounded(self.service.list_files(&caller, &sandbox, &path, max_entries)).await,
            Err(error) => Err(error),
        };
        record.close(listing.map(|listing| {
            Response::new(v1::ListFilesResponse {
                entries: listing.entries.iter().map(messages::file).collect(),
                truncated: listing.truncated,
            })
        }))
    }

    async fn stat(&self, request: Request<v1::StatRequest>) -> Result<Response<v1::FileInfo>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::StatRequest { sandbox, path } = request.into_inner();
        record.about(&sandbox);
        let found = match requests::path(path) {
            Ok(path) => record.bounded(self.service.stat(&caller, &sandbox, &path)).await,
            Err(error) => Err(error),
        };
        record.close(found.map(|info| Response::new(messages::file(&info))))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveRequest>,
    ) -> Result<Response<v1::RemoveResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::RemoveRequest { sandbox, path, recursive } = request.into_inner();
        record.about(&sandbox);
        let removed = match requests::path(path) {
            Ok(path) => record.bounded(self.service.remove(&caller, &sandbox, &path, recursive)).await,
            Err(error) => Err(error),
        };
        record.close(removed.map(|()| Response::new(v1::RemoveResponse {})))
    }

    async fn pause(&self, request: Request<v1::PauseRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::PauseRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let paused = record.bounded(self.service.pause(&caller, &sandbox)).await;
        record.close(paused.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ResumeRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let resumed = record.bounded(self.service.resume(&caller, &sandbox)).await;
        record.close(resumed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn set_timeout(
        &self,
        request: Request<v1::SetTimeoutRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::SetTimeoutRequest { sandbox, ttl_millis, idle_timeout_millis } = request.into_inner();
        record.about(&sandbox);
        let (ttl, idle) = (requests::duration(ttl_millis), requests::duration(idle_timeout_millis));
        let set = self.service.set_timeout(&caller, &sandbox, ttl, idle);
        record.close(set.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn destroy(&self, request: Request<v1::DestroyRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::DestroyRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let destroyed = record.bounded(self.service.destroy(&caller, &sandbox)).await;
        record.close(destroyed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        record.about(&request.sandbox);
        let query = WatchQuery {
            sandbox: request.sandbox,
            metadata: request.metadata.into_iter().collect(),
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
        request: Request<v1::TimelineRequest>,
    ) -> Result<Response<v1::TimelineResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::TimelineRequest { sandbox } = request.into_inner();
        record.about(&sandbox);
        let timeline = self.service.timeline(&caller, &sandbox);
        record.close(timeline.map(|timeline| Response::new(messages::timeline(timeline))))
    }
}
