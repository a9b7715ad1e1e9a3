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
