//! What a method and a path ask for.

use axum::http::Method;

use crate::http::query::segment;

/// A verb, with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Health,
    Create,
    List,
    Get(String),
    Kill(String),
    SetTimeout(String),
    Connect(String),
    Pause(String),
    Metrics(String),
    UpdateNetwork(String),
    TemplateAlias(String),
}

impl Route {
    /// The route of a request, where there is one.
    pub(super) fn of(method: &Method, path: &str) -> Option<Self> {
        let parts: Option<Vec<String>> = path.strip_prefix('/')?.split('/').map(segment).collect();
        let parts: Vec<&str> = parts.as_ref()?.iter().map(String::as_str).collect();
        // The second version of a path has the same meaning where there are two.
        let (second, parts) = match parts.as_slice() {
            ["v2", rest @ ..] => (true, rest),
            all => (false, all),
        };
        let own = str::to_owned;
        Some(match (method.as_str(), parts, second) {
            ("GET", ["health"], false) => Self::Health,
            ("POST", ["sandboxes"], _) => Self::Create,
            ("GET", ["sandboxes"], _) => Self::List,
            ("GET", ["sandboxes", id], false) => Self::Get(own(id)),
            ("DELETE", ["sandboxes", id], false) => Self::Kill(own(id)),
            ("POST", ["sandboxes", id, "timeout"], false) => Self::SetTimeout(own(id)),
            ("POST", ["sandboxes", id, "connect"], _) => Self::Connect(own(id)),
            ("POST", ["sandboxes", id, "resume"], false) => Self::Connect(own(id)),
            ("POST", ["sandboxes", id, "pause"], _) => Self::Pause(own(id)),
            ("GET", ["sandboxes", id, "metrics"], false) => Self::Metrics(own(id)),
            ("PUT", ["sandboxes", id, "network"], false) => Self::UpdateNetwork(own(id)),
            ("GET", ["templates", "aliases", name], false) => Self::TemplateAlias(own(name)),
            _ => return None,
        })
    }

    /// Its name in the audit log and the metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Health => "E2B/Health",
            Self::Create => "E2B/Create",
            Self::List => "E2B/List",
            Self::Get(_) => "E2B/Get",
            Self::Kill(_) => "E2B/Kill",
            Self::SetTimeout(_) => "E2B/SetTimeout",
            Self::Connect(_) => "E2B/Connect",
            Self::Pause(_) => "E2B/Pause",
            Self::Metrics(_) => "E2B/Metrics",
            Self::UpdateNetwork(_) => "E2B/UpdateNetwork",
            Self::TemplateAlias(_) => "E2B/TemplateAlias",
        }
    }

    /// The sandbox it names.
    pub(super) fn sandbox(&self) -> Option<&str> {
        match self {
            Self::Get(id)
            | Self::Kill(id)
            | Self::SetTimeout(id)
            | Self::Connect(id)
            | Self::Pause(id)
            | Self::Metrics(id)
            | Self::UpdateNetwork(id) => Some(id),
            Self::Health | Self::Create | Self::List | Self::TemplateAlias(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Paths of the SDKs.

    use super::*;

    #[test]
    fn both_versions_of_the_sdks_find_their_routes() {
        let get = |path: &str| Route::of(&Method::GET, path);
        let post = |path: &str| Route::of(&Method::POST, path);
        assert_eq!(post("/sandboxes"), Some(Route::Create));
        assert_eq!(post("/v2/sandboxes"), Some(Route::Create));
        assert_eq!(get("/v2/sandboxes"), Some(Route::List));
        assert_eq!(get("/sandboxes/sb-1"), Some(Route::Get("sb-1".into())));
        assert_eq!(post("/v2/sandboxes/sb-1/connect"), Some(Route::Connect("sb-1".into())));
        assert_eq!(post("/sandboxes/sb-1/resume"), Some(Route::Connect("sb-1".into())));
        let alias = Some(Route::TemplateAlias("team/base:v1".into()));
        assert_eq!(get("/templates/aliases/team%2Fbase%3Av1"), alias);
        for nothing in ["", "/", "/v2", "/sandboxes/", "/sandboxes/a/b/c", "/sandboxes/%zz", "//sandboxes"] {
            assert_eq!(post(nothing), None, "{nothing:?}");
        }
        assert_eq!(Route::of(&Method::DELETE, "/sandboxes"), None);
    }
}
