//! Bearer tokens: who a caller is, what it may do and how much it may use.
//!
//! The file holds SHA-256 sums only; a secret is shown once, when it is made. `find` is what every call with
//! a token goes through, [`TokenFile`] keeps it current, `edit` is `rekindle token`.

mod edit;
mod error;
mod file;
mod list;
mod secret;
mod token;

#[cfg(test)]
mod tests;

pub use self::edit::{Created, NewToken, create, remove};
pub use self::error::TokensError;
pub use self::file::{Change, TokenFile};
pub use self::list::{Denied, Tokens};
pub use self::secret::Secret;
pub use self::token::{Quota, Scope, Token, TokenId};
