//! As whom something is done in a guest: its unprivileged user, or root. Checked once, at the edge.

use std::fmt;

use super::path::GuestPath;

/// A user of a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GuestUser {
    /// The sandbox's own, without privileges.
    #[default]
    User,
    /// The guest's administrator.
    Root,
}

/// A path as one user of a guest has it: that user's rights count, and a relative one begins in that user's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPath {
    /// Whose.
    pub user: GuestUser,
    /// Where.
    pub path: GuestPath,
}

/// A path of the sandbox's own user.
impl From<GuestPath> for UserPath {
    fn from(path: GuestPath) -> Self {
        Self { user: GuestUser::default(), path }
    }
}

impl fmt::Display for UserPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// There is no such user in a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no user {name:?}: it is `user` or `root`")]
pub struct UnknownUser {
    /// The name, shortened.
    pub name: String,
}

impl GuestUser {
    /// The user of this name; none means the sandbox's own.
    ///
    /// # Errors
    /// When nobody has this name.
    pub fn named(name: &str) -> Result<Self, UnknownUser> {
        match name {
            "" | "user" => Ok(Self::User),
            "root" => Ok(Self::Root),
            other => Err(UnknownUser { name: other.chars().take(64).collect() }),
        }
    }

    /// The login name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
        }
    }

    /// The name for a request: the sandbox's own user is not named, since agents may run under another one.
    #[must_use]
    pub fn to_wire(self) -> String {
        match self {
            Self::User => String::new(),
            Self::Root => self.name().to_owned(),
        }
    }
}

impl fmt::Display for GuestUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_users_and_no_others() {
        assert_eq!(GuestUser::named(""), Ok(GuestUser::User));
        assert_eq!(GuestUser::named("user").map(GuestUser::to_wire), Ok(String::new()));
        assert_eq!(GuestUser::named("root").map(GuestUser::to_wire), Ok("root".to_owned()));
        for other in ["Root", "nobody", "0", "root\n", " user"] {
            assert!(GuestUser::named(other).is_err(), "{other:?}");
        }
        assert_eq!(GuestUser::named(&"x".repeat(1000)).expect_err("none").name.len(), 64);
    }
}
