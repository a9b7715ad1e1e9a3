//! A file of a guest.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rekindle_api::v1;
use serde::Serialize;

use super::{moment, word};

/// A file.
#[derive(Debug, Serialize)]
pub struct File {
    path: String,
    /// The exact bytes in hexadecimal, where the path is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    kind: String,
    size: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    modified_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_target_hex: Option<String>,
    /// What a link leads to in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_kind: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl From<&v1::FileInfo> for File {
    fn from(from: &v1::FileInfo) -> Self {
        let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| hex(bytes));
        let target = &from.link_target[..];
        Self {
            path: String::from_utf8_lossy(&from.path).into_owned(),
            path_hex: unless_text(&from.path),
            kind: word::file_kind(from.kind),
            size: from.size,
            mode: from.mode,
            uid: from.uid,
            gid: from.gid,
            owner: from.owner.clone(),
            group: from.group.clone(),
            modified_at: moment(from.modified_at),
            link_target: (!target.is_empty()).then(|| String::from_utf8_lossy(target).into_owned()),
            link_target_hex: unless_text(target),
            link_kind: (from.link_kind != 0).then(|| word::file_kind(from.link_kind)),
            metadata: from.metadata.clone(),
            sha256: some(&from.sha256),
        }
    }
}

/// A change of a file.
#[derive(Debug, Serialize)]
pub struct FileEvent {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    kind: String,
    /// The file, where it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<File>,
}

impl From<&v1::FileEvent> for FileEvent {
    fn from(from: &v1::FileEvent) -> Self {
        Self {
            path: String::from_utf8_lossy(&from.path).into_owned(),
            path_hex: unless_text(&from.path),
            kind: word::file_event(from.kind),
            file: from.file.as_ref().map(File::from),
        }
    }
}

fn unless_text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    //! What a program reads.

    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_path_that_is_no_text_keeps_its_bytes() {
        let info = v1::FileInfo { path: Bytes::from_static(b"a\xff"), ..v1::FileInfo::default() };
        let json = serde_json::to_value(File::from(&info)).expect("it can be shown");
        assert_eq!(json["path"], "a\u{fffd}");
        assert_eq!(json["path_hex"], "61ff");
        assert_eq!(json.get("link_target"), None);
        let info = v1::FileInfo { path: Bytes::from_static(b"a\x1b"), ..v1::FileInfo::default() };
        let text = serde_json::to_string(&File::from(&info)).expect("it can be shown");
        assert!(!text.chars().any(char::is_control) && !text.contains("path_hex"), "{text}");
    }
}
