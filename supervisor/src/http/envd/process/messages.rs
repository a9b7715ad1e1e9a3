//! The messages of `process.Process`, as proto3 has them in JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::agent::TerminalSize;
use crate::http::connect::ConnectError;
use crate::http::connect::json::{bytes, is_zero, number, optional_bytes, optional_number, or_default};

/// The largest terminal anyone has.
const MAX_TERMINAL: u32 = 10_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StartRequest {
    pub process: Option<ProcessConfig>,
    pub pty: Option<Pty>,
    pub tag: Option<String>,
    /// Not there: its input is written to.
    pub stdin: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ProcessConfig {
    #[serde(deserialize_with = "or_default")]
    pub cmd: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub args: Vec<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub cwd: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pty {
    pub size: Option<PtySize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PtySize {
    #[serde(deserialize_with = "number")]
    pub cols: u32,
    #[serde(deserialize_with = "number")]
    pub rows: u32,
}

impl Pty {
    /// The size of the terminal.
    pub(super) fn size(&self) -> Result<TerminalSize, ConnectError> {
        let right = |number: u32| (1..=MAX_TERMINAL).contains(&number);
        match &self.size {
            Some(size) if right(size.cols) && right(size.rows) => {
                Ok(TerminalSize { rows: size.rows, cols: size.cols })
            }
            _ => Err(ConnectError::invalid(format!("a terminal has 1 to {MAX_TERMINAL} rows and columns"))),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProcessSelector {
    #[serde(deserialize_with = "optional_number")]
    pub pid: Option<u32>,
    pub tag: Option<String>,
}

/// Of `Connect` and `CloseStdin`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProcessRequest {
    pub process: Option<ProcessSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SendInputRequest {
    pub process: Option<ProcessSelector>,
    pub input: Option<ProcessInput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ProcessInput {
    #[serde(deserialize_with = "optional_bytes")]
    pub stdin: Option<Bytes>,
    #[serde(deserialize_with = "optional_bytes")]
    pub pty: Option<Bytes>,
}

/// One of the messages of `StreamInput`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamInputRequest {
    pub start: Option<ProcessRequest>,
    pub data: Option<InputData>,
    pub keepalive: Option<Nothing>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputData {
    pub input: Option<ProcessInput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SendSignalRequest {
    pub process: Option<ProcessSelector>,
    pub signal: Option<Signal>,
}

/// By name or by number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Signal {
    Name(String),
    Number(u32),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UpdateRequest {
    pub process: Option<ProcessSelector>,
    pub pty: Option<Pty>,
}

/// A message without fields that matter.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Nothing {}

#[derive(Debug, Serialize)]
pub(super) struct ListResponse {
    #[serde(skip_serializing_if = "is_zero_list")]
    pub processes: Vec<ProcessInfo>,
}

fn is_zero_list<T>(list: &[T]) -> bool {
    list.is_empty()
}

#[derive(Debug, Serialize)]
pub(super) struct ProcessInfo {
    pub config: ProcessConfig,
    pub pid: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub tag: Option<String>,
}

/// Of `Start` and `Connect`.
#[derive(Debug, Serialize)]
pub(super) struct EventMessage {
    pub event: Event,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Event {
    Start { pid: u32 },
    Data(Data),
    End(End),
    Keepalive {},
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Data {
    #[serde(serialize_with = "bytes")]
    Stdout(Bytes),
    #[serde(serialize_with = "bytes")]
    Stderr(Bytes),
    #[serde(serialize_with = "bytes")]
    Pty(Bytes),
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    #[serde(skip_serializing_if = "is_zero")]
    pub exit_code: i32,
    #[serde(skip_serializing_if = "is_zero")]
    pub exited: bool,
    pub status: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub error: Option<String>,
}
