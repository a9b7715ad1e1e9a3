//! The messages of `filesystem.Filesystem`, as proto3 has them in JSON.

use serde::{Deserialize, Serialize};

use crate::http::connect::json::{number, or_default};
use crate::http::envd::entry::EntryInfo;

/// Of `Stat`, `MakeDir` and `Remove`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PathRequest {
    #[serde(deserialize_with = "or_default")]
    pub path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MoveRequest {
    #[serde(deserialize_with = "or_default")]
    pub source: String,
    #[serde(deserialize_with = "or_default")]
    pub destination: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListDirRequest {
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    #[serde(deserialize_with = "number")]
    pub depth: u32,
}

/// Of `Stat`, `MakeDir` and `Move`.
#[derive(Debug, Serialize)]
pub(super) struct EntryResponse {
    pub entry: EntryInfo,
}

#[derive(Debug, Serialize)]
pub(super) struct ListDirResponse {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntryInfo>,
}

#[derive(Debug, Serialize)]
pub(super) struct Nothing {}

/// Of `WatchDir` and `CreateWatcher`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WatchRequest {
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    #[serde(deserialize_with = "or_default")]
    pub recursive: bool,
    #[serde(deserialize_with = "or_default")]
    pub include_entry: bool,
}

/// Of `GetWatcherEvents` and `RemoveWatcher`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WatcherRequest {
    #[serde(deserialize_with = "or_default")]
    pub watcher_id: String,
}

/// One of the messages of `WatchDir`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WatchDirEvent {
    Start {},
    Filesystem(Box<FilesystemEvent>),
    Keepalive {},
}

#[derive(Debug, Serialize)]
pub(super) struct FilesystemEvent {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: EventType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryInfo>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) enum EventType {
    #[serde(rename = "EVENT_TYPE_CREATE")]
    Create,
    #[serde(rename = "EVENT_TYPE_WRITE")]
    Write,
    #[serde(rename = "EVENT_TYPE_REMOVE")]
    Remove,
    #[serde(rename = "EVENT_TYPE_RENAME")]
    Rename,
    #[serde(rename = "EVENT_TYPE_CHMOD")]
    Chmod,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateWatcherResponse {
    pub watcher_id: String,
}

#[derive(Debug, Serialize)]
pub(super) struct GetWatcherEventsResponse {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<FilesystemEvent>,
}
