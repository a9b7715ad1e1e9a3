//! The service `Files`: each call asks the service on behalf of its admitted caller, and puts the answer into words.

use std::pin::Pin;

use bytes::Bytes;
use futures::future::ready;
use futures::stream::{once, unfold};
use futures::{Stream, StreamExt as _};
use rekindle_api::v1::{self, files_server::Files};
use tonic::{Request, Response, Status, Streaming};

use super::call_record::CallRecord;
use super::{messages, requests, status, transfer};
use crate::agent::{MkdirOptions, UploadOptions, permissions};
use crate::service::{Scope, Service, ServiceError, WatchFiles};

/// The service.
#[derive(Clone)]
pub(super) struct FilesApi {
    pub service: Service,
}

fn invalid(what: &'static str) -> ServiceError {
    ServiceError::Invalid { what: what.into() }
}

#[tonic::async_trait]
impl Files for FilesApi {
    type DownloadStream = Pin<Box<dyn Stream<Item = Result<v1::DownloadFileResponse, Status>> + Send>>;

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchFilesResponse, Status>> + Send>>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadFileRequest>>,
    ) -> Result<Response<v1::FileInfo>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let mut parts = request.into_inner();
        let first = match parts.message().await {
            Ok(message) => message.and_then(|message| message.part),
            Err(status) => return Err(record.undecoded(&status)),
        };
        let Some(v1::upload_file_request::Part::Start(file)) = first else {
            return record.close(Err(invalid("the first message must name the file")));
        };
        record.enter(&self.service, &caller, Scope::Files, &file.sandbox).await;
        let options = requests::metadata(file.metadata).map(|metadata| UploadOptions {
            mode: permissions(file.mode),
            must_not_exist: file.must_not_exist,
            size: file.size,
            metadata,
            in_place: file.in_place,
        });
        let uploaded = match requests::path(file.path, &file.user).and_then(|path| Ok((path, options?))) {
            Ok((path, options)) => {
                let content = transfer::content(parts, file.size);
                record.bounded(self.service.upload(&caller, &file.sandbox, &path, options, content)).await
            }
            Err(error) => Err(error),
        };
        record.close(uploaded.map(|info| Response::new(messages::file(&info))))
    }

    async fn download(
        &self,
        request: Request<v1::DownloadFileRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::DownloadFileRequest { sandbox, path, max_bytes, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        match requests::path(path, &user) {
            Ok(path) => {
                let stream = transfer::download(&self.service, caller, sandbox, path, max_bytes, record);
                Ok(Response::new(Box::pin(stream)))
            }
            Err(error) => record.close(Err(error)),
        }
    }

    async fn list(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ListFilesRequest { sandbox, path, max_entries, depth, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        // Relative paths begin in the user's home.
        let path = if path.is_empty() { Bytes::from_static(b".") } else { path };
        let listing = match requests::path(path, &user) {
            Ok(path) => {
                let listing = self.service.list_files(&caller, &sandbox, &path, depth, max_entries);
                record.bounded(listing).await
            }
            Err(error) => Err(error),
        };
        record.close(listing.map(|listing| {
            Response::new(v1::ListFilesResponse {
                entries: listing.entries.iter().map(messages::file).collect(),
                truncated: listing.truncated,
            })
        }))
    }

    async fn stat(&self, request: Request<v1::StatFileRequest>) -> Result<Response<v1::FileInfo>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::StatFileRequest { sandbox, path, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let found = match requests::path(path, &user) {
            Ok(path) => record.bounded(self.service.stat(&caller, &sandbox, &path)).await,
            Err(error) => Err(error),
        };
        record.close(found.map(|info| Response::new(messages::file(&info))))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveFileRequest>,
    ) -> Result<Response<v1::RemoveFileResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::RemoveFileRequest { sandbox, path, recursive, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let removed = match requests::path(path, &user) {
            Ok(path) => record.bounded(self.service.remove(&caller, &sandbox, &path, recursive)).await,
            Err(error) => Err(error),
        };
        record.close(removed.map(|()| Response::new(v1::RemoveFileResponse {})))
    }

    async fn make_dir(&self, request: Request<v1::MakeDirRequest>) -> Result<Response<v1::FileInfo>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::MakeDirRequest { sandbox, path, mode, must_not_exist, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let options = MkdirOptions { mode: permissions(mode), parents: true, must_not_exist };
        let made = match requests::path(path, &user) {
            Ok(path) => record.bounded(self.service.make_dir(&caller, &sandbox, &path, options)).await,
            Err(error) => Err(error),
        };
        record.close(made.map(|info| Response::new(messages::file(&info))))
    }

    async fn r#move(&self, request: Request<v1::MoveFileRequest>) -> Result<Response<v1::FileInfo>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::MoveFileRequest { sandbox, from, to, must_not_exist, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let moved = match requests::path(from, &user).and_then(|from| Ok((from, requests::path(to, &user)?)))
        {
            Ok((from, to)) => {
                record.bounded(self.service.rename(&caller, &sandbox, &from, &to.path, must_not_exist)).await
            }
            Err(error) => Err(error),
        };
        record.close(moved.map(|info| Response::new(messages::file(&info))))
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeFilesRequest>,
    ) -> Result<Response<v1::DescribeFilesResponse>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let request = request.into_inner();
        let sandbox = request.sandbox.clone();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let described = match requests::describe(request) {
            Ok(spec) => record.bounded(self.service.describe(&caller, &sandbox, spec)).await,
            Err(error) => Err(error),
        };
        record.close(described.map(|described| {
            Response::new(v1::DescribeFilesResponse { text: described.text, structure: described.structure })
        }))
    }

    async fn watch(
        &self,
        request: Request<v1::WatchFilesRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::WatchFilesRequest { sandbox, path, recursive, describe, user } = request.into_inner();
        record.enter(&self.service, &caller, Scope::Files, &sandbox).await;
        let watching = match requests::path(path, &user) {
            Ok(path) => {
                let watch = WatchFiles { path, recursive, describe };
                record.bounded(self.service.watch_files(&caller, &sandbox, watch)).await
            }
            Err(error) => Err(error),
        };
        let watch = record.close(watching)?;
        let begun = v1::WatchFilesResponse::default();
        let events = unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(changes) => {
                    let events = changes.iter().map(messages::file_event).collect();
                    Some((Ok(v1::WatchFilesResponse { events }), Some(watch)))
                }
                Err(error) => Some((Err(status::status(&error)), None)),
            }
        });
        Ok(Response::new(Box::pin(once(ready(Ok(begun))).chain(events))))
    }
}
