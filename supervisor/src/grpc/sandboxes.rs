//! The service `Sandboxes`: each call admits its caller, asks the service, and puts the answer into words.

use std::pin::Pin;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::v1::{self, execute_input::Input as Word, sandboxes_server::Sandboxes};
use tonic::{Request, Response, Status, Streaming};

use super::account::Office;
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
    pub office: Office,
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
        let (mut account, caller) = self.office.open("Create", &request)?;
        let created = match requests::create(request.into_inner()) {
            Ok(spec) => account.bounded(self.service.create(&caller, spec)).await,
            Err(error) => Err(error),
        };
        if let Ok(view) = &created {
            account.about(view.id.as_str());
        }
        account.close(created.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut account, caller) = self.office.open("Get", &request)?;
        let v1::GetRequest { sandbox } = request.into_inner();
        account.about(&sandbox);
        let found = account.bounded(self.service.get(&caller, &sandbox)).await;
        account.close(found.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let (account, caller) = self.office.open("List", &request)?;
        let request = request.into_inner();
        let query = ListQuery {
            metadata: request.metadata.into_iter().collect(),
            include_ended: request.include_ended,
            page_size: request.page_size as usize,
            page_token: request.page_token,
        };
        let page = account.bounded(self.service.list(&caller, &query)).await;
        account.close(page.map(|page| {
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
        let (mut account, caller) = self.office.open("Execute", &request)?;
        account.about(&request.get_ref().sandbox);
        let executed = match requests::execute(request.into_inner()) {
            Ok((sandbox, spec, stdin, key)) => {
                account.bounded(self.service.execute(&caller, &sandbox, spec, stdin, &key)).await
            }
            Err(error) => Err(error),
        };
        account.close(executed.map(|executed| Response::new(messages::executed(&executed))))
    }

    async fn execute_stream(
        &self,
        request: Request<Streaming<v1::ExecuteInput>>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let (mut account, caller) = self.office.open("ExecuteStream", &request)?;
        let mut words = request.into_inner();
        let first = words.message().await?.and_then(|message| message.input);
        let Some(Word::Start(v1::ExecuteStart { request: Some(request), terminal, live_stdin })) = first
        else {
            return account.close(Err(invalid("the first message must start the program")));
        };
        account.about(&request.sandbox);
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
                Ok(Response::new(Box::pin(live::events(live, inbox, account))))
            }
            Err(error) => account.close(Err(error)),
        }
    }

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let (mut account, caller) = self.office.open("Upload", &request)?;
        let mut parts = request.into_inner();
        let first = parts.message().await?.and_then(|message| message.part);
        let Some(v1::upload_request::Part::File(file)) = first else {
            return account.close(Err(invalid("the first message must name the file")));
        };
        account.about(&file.sandbox);
        let options = UploadOptions { mode: file.mode, must_not_exist: file.must_not_exist, size: file.size };
        let uploaded = match requests::path(file.path) {
            Ok(path) => {
                let content = files::content(parts, file.size);
                account.bounded(self.service.upload(&caller, &file.sandbox, &path, options, content)).await
            }
            Err(error) => Err(error),
        };
        account.close(
            uploaded.map(|info| Response::new(v1::UploadResponse { file: Some(messages::file(&info)) })),
        )
    }

    async fn download(
        &self,
        request: Request<v1::DownloadRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let (mut account, caller) = self.office.open("Download", &request)?;
        let v1::DownloadRequest { sandbox, path, max_bytes } = request.into_inner();
        account.about(&sandbox);
        match requests::path(path) {
            Ok(path) => {
                let stream = files::download(&self.service, caller, sandbox, path, max_bytes, account);
                Ok(Response::new(Box::pin(stream)))
            }
            Err(error) => account.close(Err(error)),
        }
    }

    async fn list_files(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesResponse>, Status> {
        let (mut account, caller) = self.office.open("ListFiles", &request)?;
        let v1::ListFilesRequest { sandbox, path, max_entries } = request.into_inner();
        account.about(&sandbox);
        // Relative paths begin in the user's home.
        let path = if path.is_empty() {
            GuestPath::new(".").map_err(|_| invalid("no path"))
        } else {
            requests::path(path)
        };
        let listing = match path {
            Ok(path) => account.bounded(self.service.list_files(&caller, &sandbox, &path, max_entries)).await,
            Err(error) => Err(error),
        };
        account.close(listing.map(|listing| {
            Response::new(v1::ListFilesResponse {
                entries: listing.entries.iter().map(messages::file).collect(),
                truncated: listing.truncated,
            })
        }))
    }

    async fn stat(&self, request: Request<v1::StatRequest>) -> Result<Response<v1::FileInfo>, Status> {
        let (mut account, caller) = self.office.open("Stat", &request)?;
        let v1::StatRequest { sandbox, path } = request.into_inner();
        account.about(&sandbox);
        let found = match requests::path(path) {
            Ok(path) => account.bounded(self.service.stat(&caller, &sandbox, &path)).await,
            Err(error) => Err(error),
        };
        account.close(found.map(|info| Response::new(messages::file(&info))))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveRequest>,
    ) -> Result<Response<v1::RemoveResponse>, Status> {
        let (mut account, caller) = self.office.open("Remove", &request)?;
        let v1::RemoveRequest { sandbox, path, recursive } = request.into_inner();
        account.about(&sandbox);
        let removed = match requests::path(path) {
            Ok(path) => account.bounded(self.service.remove(&caller, &sandbox, &path, recursive)).await,
            Err(error) => Err(error),
        };
        account.close(removed.map(|()| Response::new(v1::RemoveResponse {})))
    }

    async fn pause(&self, request: Request<v1::PauseRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut account, caller) = self.office.open("Pause", &request)?;
        let v1::PauseRequest { sandbox } = request.into_inner();
        account.about(&sandbox);
        let paused = account.bounded(self.service.pause(&caller, &sandbox)).await;
        account.close(paused.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut account, caller) = self.office.open("Resume", &request)?;
        let v1::ResumeRequest { sandbox } = request.into_inner();
        account.about(&sandbox);
        let resumed = account.bounded(self.service.resume(&caller, &sandbox)).await;
        account.close(resumed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn set_timeout(
        &self,
        request: Request<v1::SetTimeoutRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut account, caller) = self.office.open("SetTimeout", &request)?;
        let v1::SetTimeoutRequest { sandbox, ttl_millis, idle_timeout_millis } = request.into_inner();
        account.about(&sandbox);
        let (ttl, idle) = (requests::duration(ttl_millis), requests::duration(idle_timeout_millis));
        let set = self.service.set_timeout(&caller, &sandbox, ttl, idle);
        account.close(set.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn destroy(&self, request: Request<v1::DestroyRequest>) -> Result<Response<v1::Sandbox>, Status> {
        let (mut account, caller) = self.office.open("Destroy", &request)?;
        let v1::DestroyRequest { sandbox } = request.into_inner();
        account.about(&sandbox);
        let destroyed = account.bounded(self.service.destroy(&caller, &sandbox)).await;
        account.close(destroyed.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (mut account, caller) = self.office.open("Watch", &request)?;
        let request = request.into_inner();
        account.about(&request.sandbox);
        let query = WatchQuery {
            sandbox: request.sandbox,
            metadata: request.metadata.into_iter().collect(),
            include_existing: request.include_existing,
        };
        let watch = account.close(self.service.watch(&caller, query).await)?;
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
        let (mut account, caller) = self.office.open("Timeline", &request)?;
        let v1::TimelineRequest { sandbox } = request.into_inner();
        account.about(&sandbox);
        let timeline = self.service.timeline(&caller, &sandbox);
        account.close(timeline.map(|timeline| Response::new(messages::timeline(timeline))))
    }
}
