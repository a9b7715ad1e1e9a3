//! What the address of a request says about a file.

use axum::extract::Query;
use axum::http::Uri;
use serde::Deserialize;

use crate::http::envd::signature::Signed;
use crate::http::refusal::HttpRefusal;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileQuery {
    pub path: Option<String>,
    pub username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<String>,
}

impl FileQuery {
    pub(super) fn of(uri: &Uri) -> Result<Self, HttpRefusal> {
        let query = Query::try_from_uri(uri);
        query.map(|Query(query)| query).map_err(|_| HttpRefusal::bad_request("the query cannot be read"))
    }

    pub(super) fn signed(&self) -> Signed<'_> {
        Signed {
            path: self.path.as_deref().unwrap_or_default(),
            user: self.user(),
            signature: self.signature.as_deref(),
            expiration: self.signature_expiration.as_deref(),
        }
    }

    /// The user's name; empty where none is named.
    pub(super) fn user(&self) -> &str {
        self.username.as_deref().unwrap_or_default()
    }
}
