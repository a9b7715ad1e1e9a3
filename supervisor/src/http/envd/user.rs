//! As whom something is done in a sandbox, and where its paths begin.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::agent::{GuestPath, GuestUser, UnknownUser, UserPath};
use crate::http::connect::{Code, ConnectError};

/// A user of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User {
    pub user: GuestUser,
    home: &'static str,
}

/// Where each begins.
fn home(user: GuestUser) -> &'static str {
    match user {
        GuestUser::User => "/home/user",
        GuestUser::Root => "/root",
    }
}

impl User {
    /// The user that a call names by `Authorization: Basic <user>:`; else the sandbox's own.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ConnectError> {
        let Some(header) = headers.get(AUTHORIZATION) else { return Self::named("") };
        let wrong = || ConnectError::new(Code::Unauthenticated, "the authorization header names no user");
        let encoded = header.to_str().ok().and_then(|text| text.strip_prefix("Basic ")).ok_or_else(wrong)?;
        let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or_else(wrong)?;
        Self::named(decoded.split(':').next().unwrap_or_default())
    }

    /// The user of this name; none means the sandbox's own.
    pub(super) fn named(name: &str) -> Result<Self, ConnectError> {
        let user = GuestUser::named(name).map_err(|UnknownUser { name }| {
            ConnectError::new(Code::Unauthenticated, format!("invalid username: '{name}'"))
        })?;
        Ok(Self { user, home: home(user) })
    }

    /// A path of this user's: absolute, from its home, or from `~`; without `.`, `..` and doubled slashes.
    pub(super) fn path(self, path: &str) -> Result<UserPath, ConnectError> {
        let path = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ => path,
        };
        let joined = if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.home) };
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let clean = format!("/{}", parts.join("/"));
        let path = GuestPath::new(clean).map_err(|error| ConnectError::invalid(error.to_string()))?;
        Ok(UserPath { user: self.user, path })
    }
}

#[cfg(test)]
mod tests {
    //! Names and paths.

    use super::*;

    #[test]
    fn a_call_names_its_user_or_gets_the_sandbox_s_own() {
        let of = |header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().expect("a header"));
            User::of(&headers).map(|user| user.user)
        };
        assert_eq!(User::of(&HeaderMap::new()).map(|user| user.user), Ok(GuestUser::User));
        assert_eq!(of("Basic dXNlcjo="), Ok(GuestUser::User));
        assert_eq!(of("Basic cm9vdDo="), Ok(GuestUser::Root));
        for wrong in ["Bearer dXNlcjo=", "Basic ?", "Basic /w==", "Basic bm9ib2R5Og=="] {
            assert_eq!(of(wrong).expect_err("refused").code, Code::Unauthenticated, "{wrong}");
        }
        let error = User::named("nobody").expect_err("unknown");
        assert_eq!(error.message, "invalid username: 'nobody'");
    }

    #[test]
    fn paths_begin_at_home_and_are_clean() {
        let user = User::named("user").expect("a user");
        for (path, clean) in [
            ("a.txt", "/home/user/a.txt"),
            ("", "/home/user"),
            (".", "/home/user"),
            ("~", "/home/user"),
            ("~/a", "/home/user/a"),
            ("~b", "/home/user/~b"),
            ("/tmp//a/./b/../c/", "/tmp/a/c"),
            ("/..", "/"),
            ("../../../etc", "/etc"),
        ] {
            assert_eq!(user.path(path).expect("a path").path.as_bytes(), clean.as_bytes(), "{path:?}");
        }
        let root = User::named("root").expect("a user").path("~/a").expect("a path");
        assert_eq!((root.user, root.path.as_bytes()), (GuestUser::Root, &b"/root/a"[..]));
        assert_eq!(user.path("a\0b").expect_err("no path").code, Code::InvalidArgument);
        assert!(user.path(&"a".repeat(100_000)).is_err());
    }
}
