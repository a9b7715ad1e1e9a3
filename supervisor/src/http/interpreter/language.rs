//! The language that a client names.

use crate::http::refusal::HttpRefusal;
use crate::service::CodeLanguage;

/// The language of this name.
pub(super) fn named(name: Option<&str>) -> Result<CodeLanguage, HttpRefusal> {
    let name = name.unwrap_or_default();
    CodeLanguage::named(name).ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        let message =
            format!("there is no language `{name}`: python, javascript, typescript and bash are there");
        HttpRefusal::bad_request(message)
    })
}
