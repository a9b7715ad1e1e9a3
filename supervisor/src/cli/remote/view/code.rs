//! Contexts, and what code tells. Images are base64, as in the API's own JSON.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rekindle_api::v1;
use serde::Serialize;

use super::word;
use crate::cli::execution::Diagnosis;

/// A context.
#[derive(Debug, Serialize)]
pub struct CodeContext {
    id: String,
    language: String,
    cwd: String,
}

impl From<v1::CodeContext> for CodeContext {
    fn from(from: v1::CodeContext) -> Self {
        Self { language: word::code_language(from.language), id: from.id, cwd: from.cwd }
    }
}

/// A value, in the forms that it has.
#[derive(Debug, Serialize)]
pub struct CodeResult {
    is_main: bool,
    #[serde(flatten)]
    forms: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    others: BTreeMap<String, String>,
}

impl From<v1::CodeResult> for CodeResult {
    fn from(from: v1::CodeResult) -> Self {
        let image = |bytes: Option<bytes::Bytes>| bytes.map(|bytes| STANDARD.encode(bytes));
        let forms = [
            ("text", from.text),
            ("html", from.html),
            ("markdown", from.markdown),
            ("svg", from.svg),
            ("png", image(from.png)),
            ("jpeg", image(from.jpeg)),
            ("pdf", image(from.pdf)),
            ("latex", from.latex),
            ("javascript", from.javascript),
            ("json", from.json),
            ("data", from.data),
            ("chart", from.chart),
        ];
        let forms = forms.into_iter().filter_map(|(name, form)| Some((name, form?))).collect();
        Self { is_main: from.is_main, forms, others: from.others }
    }
}

/// Why code failed.
#[derive(Debug, Serialize)]
pub struct CodeError {
    name: String,
    value: String,
    traceback: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
}

impl From<v1::CodeError> for CodeError {
    fn from(from: v1::CodeError) -> Self {
        let v1::CodeError { name, value, traceback, diagnosis } = from;
        Self { name, value, traceback, diagnosis: diagnosis.map(Into::into) }
    }
}
