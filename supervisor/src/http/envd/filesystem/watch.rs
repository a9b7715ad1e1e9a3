//! Tells what changes in a directory: in a stream, or to a caller who asks now and then.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures::Stream;
use futures::stream::unfold;
use tokio::time::sleep;

use super::messages::{
    CreateWatcherResponse, EventType, FilesystemEvent, GetWatcherEventsResponse, Nothing, WatchDirEvent,
    WatchRequest, WatcherRequest,
};
use crate::agent::{FileEventKind, UserPath};
use crate::door::CallRecord;
use crate::http::connect::{self, ConnectError, Messages, Stop};
use crate::http::envd::entry::EntryInfo;
use crate::http::envd::keepalive::keepalive;
use crate::http::envd::rpc::{Asked, Rpc};
use crate::http::envd::trouble::{Trouble, is_gone};
use crate::http::front::{Call, revocable};
use crate::service::{ErrorKind, FileChange, FileWatch, ServiceError, WatchFiles};

/// Tells of changes as they happen.
pub(super) async fn watch(rpc: Rpc<'_>) -> Response<Body> {
    let Rpc { service, sandbox, call, parts, body } = rpc;
    let beginning = async {
        let within = connect::timeout(&parts.headers)?;
        let headers = &parts.headers;
        let asked = Asked { service, caller: &call.caller, sandbox: &sandbox, headers, within };
        let request: WatchRequest = Messages::of(&parts, body)?.only().await?;
        let watch = wanted(&asked, &request)?;
        let path = watch.path.clone();
        let begun = service.watch_files(asked.caller, asked.sandbox, watch).await;
        begun.map_err(|error| refused(error, &path))
    };
    let watch = match beginning.await {
        Ok(watch) => watch,
        Err(trouble) => return Rpc::failed(&sandbox, call, trouble),
    };
    let mut call = call;
    let standing = call.standing.take();
    let Call { record, .. } = call;
    let revoked = std::sync::Arc::clone(record.revoked());
    let told = Told { watch, record, keepalive: keepalive(&parts.headers), begun: false, over: false };
    revocable(connect::stream(told.events()), standing, revoked)
}

/// Begins to watch for a caller who asks.
pub(super) async fn create(
    asked: Asked<'_>,
    request: WatchRequest,
) -> Result<CreateWatcherResponse, Trouble> {
    let watch = wanted(&asked, &request)?;
    let path = watch.path.clone();
    let created = asked.service.create_watcher(asked.caller, asked.sandbox, watch).await;
    Ok(CreateWatcherResponse { watcher_id: created.map_err(|error| refused(error, &path))? })
}

/// What has happened since it was last asked.
pub(super) async fn events(
    asked: Asked<'_>,
    request: WatcherRequest,
) -> Result<GetWatcherEventsResponse, Trouble> {
    let changes = asked.service.watcher_changes(asked.caller, asked.sandbox, &request.watcher_id).await?;
    Ok(GetWatcherEventsResponse { events: changes.iter().map(event).collect() })
}

/// Ends a watch.
pub(super) async fn remove(asked: Asked<'_>, request: WatcherRequest) -> Result<Nothing, Trouble> {
    asked.service.remove_watcher(asked.caller, asked.sandbox, &request.watcher_id)?;
    Ok(Nothing {})
}

fn wanted(asked: &Asked<'_>, request: &WatchRequest) -> Result<WatchFiles, ConnectError> {
    let path = asked.user()?.path(&request.path)?;
    Ok(WatchFiles { path, recursive: request.recursive, describe: request.include_entry })
}

fn refused(error: ServiceError, path: &UserPath) -> Trouble {
    if error.kind() == ErrorKind::WrongFileKind {
        return ConnectError::invalid(format!("path is not a directory: {path}")).into();
    }
    error.into()
}

fn event(change: &FileChange) -> FilesystemEvent {
    let kind = match change.event.kind {
        FileEventKind::Created => EventType::Create,
        FileEventKind::Written => EventType::Write,
        FileEventKind::Removed => EventType::Remove,
        FileEventKind::Renamed => EventType::Rename,
        FileEventKind::Changed => EventType::Chmod,
    };
    let entry = change.at.as_ref().zip(change.info.as_ref());
    let entry = entry.map(|(path, info)| EntryInfo::of(path, info));
    let name = String::from_utf8_lossy(change.event.path.as_bytes()).into_owned();
    FilesystemEvent { name, kind, entry }
}

/// A stream under way.
struct Told {
    watch: FileWatch,
    record: CallRecord,
    keepalive: Duration,
    begun: bool,
    over: bool,
}

impl Told {
    /// Its messages: that it has begun, and each change.
    fn events(self) -> impl Stream<Item = Result<WatchDirEvent, Stop>> + Send + 'static {
        let waiting = Vec::new().into_iter();
        unfold((self, waiting), |(mut told, mut waiting)| async move {
            if !std::mem::replace(&mut told.begun, true) {
                return Some((Ok(WatchDirEvent::Start {}), (told, waiting)));
            }
            if let Some(event) = waiting.next() {
                return Some((Ok(WatchDirEvent::Filesystem(Box::new(event))), (told, waiting)));
            }
            if told.over {
                return None;
            }
            let changes = tokio::select! {
                changes = told.watch.next() => changes,
                () = sleep(told.keepalive) => return Some((Ok(WatchDirEvent::Keepalive {}), (told, waiting))),
            };
            match changes {
                Ok(changes) => {
                    let events: Vec<_> = changes.iter().map(event).collect();
                    let mut waiting = events.into_iter();
                    let first = waiting.next()?;
                    Some((Ok(WatchDirEvent::Filesystem(Box::new(first))), (told, waiting)))
                }
                Err(error) => {
                    told.over = true;
                    let trouble = Trouble::from(error);
                    let stop = match &trouble {
                        Trouble::Service(error) if is_gone(error.kind()) => Stop::Cut,
                        trouble => Stop::Error(trouble.connect()),
                    };
                    trouble.settle(&mut told.record);
                    Some((Err(stop), (told, waiting)))
                }
            }
        })
    }
}
