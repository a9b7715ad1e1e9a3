//! What a service is called with: a header, whose secret comes from a file or a variable of the supervisor's and is
//! never shown. A file is read again when it changes; one that is no good then changes nothing.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hyper::header::{HeaderName, HeaderValue};

use super::service::InvalidService;
use super::spec::CredentialSpec;
use crate::config::refresh::Stamp;
use crate::config::secret_file::{self, SecretFileError};

/// Largest secret.
const MAX_SECRET: usize = 16 * 1024;
/// Least bytes of one: what is shorter would be found, and masked, in answers that do not hold it.
const MIN_SECRET: usize = 8;
/// Headers that say how a message is to be read, not who sends it.
const NOT_CREDENTIALS: [&str; 7] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"];

/// Why a secret cannot be used. Says nothing of what is in it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file is open to everybody, or cannot be looked at.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no such variable.
    #[error(
        "the variable {name} is not set, or is no text\nhint: set it for the supervisor, or name a file instead"
    )]
    Variable {
        /// Its name.
        name: String,
    },
    /// What is there is no secret.
    #[error(
        "the secret has fewer than {MIN_SECRET} or more than {MAX_SECRET} bytes, or some that no header may have\n\
         hint: put the bare key there, on one line"
    )]
    Unusable,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Variable(String),
}

/// Which header, and where its secret is. Nothing was read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CredentialPlan {
    header: HeaderName,
    before: String,
    after: String,
    source: Source,
}

impl CredentialPlan {
    pub(super) fn new(spec: &CredentialSpec) -> Result<Self, InvalidService> {
        let header = HeaderName::from_bytes(spec.header.as_bytes());
        let header = header.ok().filter(|header| !NOT_CREDENTIALS.contains(&header.as_str()));
        let header = header.ok_or(InvalidService::Header)?;
        let (before, after) = spec.value.split_once("{}").ok_or(InvalidService::Value)?;
        let visible = |part: &str| part.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if after.contains("{}") || !visible(before) || !visible(after) {
            return Err(InvalidService::Value);
        }
        let source = match (&spec.file, &spec.env) {
            (Some(path), None) if path.is_absolute() => Source::File(path.clone()),
            (Some(_), None) => return Err(InvalidService::Relative),
            (None, Some(name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
                Source::Variable(name.clone())
            }
            _ => return Err(InvalidService::Source),
        };
        Ok(Self { header, before: before.to_owned(), after: after.to_owned(), source })
    }

    fn read(&self) -> Result<Secret, CredentialError> {
        self.secret(&self.text()?)
    }

    fn text(&self) -> Result<String, CredentialError> {
        Ok(match &self.source {
            Source::File(path) => read_file(path)?,
            Source::Variable(name) => {
                std::env::var(name).map_err(|_| CredentialError::Variable { name: name.clone() })?
            }
        })
    }

    /// What a text makes of the header.
    fn secret(&self, text: &str) -> Result<Secret, CredentialError> {
        let bare = text.trim();
        if !(MIN_SECRET..=MAX_SECRET).contains(&bare.len()) {
            return Err(CredentialError::Unusable);
        }
        let value = format!("{}{bare}{}", self.before, self.after);
        let mut value = HeaderValue::from_str(&value).map_err(|_| CredentialError::Unusable)?;
        value.set_sensitive(true);
        Ok(Secret { bare: bare.as_bytes().to_vec(), value })
    }
}

fn read_file(path: &Path) -> Result<String, CredentialError> {
    // This also refuses what is open to everybody, again with every change.
    secret_file::check(path)?;
    let failed = |source| CredentialError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut text = String::new();
    // One more than may be there, and a line's end.
    file.take(MAX_SECRET as u64 + 3).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// A secret in force. Its debug form hides it.
pub(super) struct Secret {
    /// As it was given.
    pub(super) bare: Vec<u8>,
    /// As the header has it.
    pub(super) value: HeaderValue,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A credential in use.
#[derive(Debug)]
pub(super) struct Credential {
    plan: CredentialPlan,
    current: RwLock<Arc<Secret>>,
    seen: Mutex<Option<Stamp>>,
}

impl Credential {
    /// Reads the secret for the first time.
    pub(super) fn open(plan: &CredentialPlan) -> Result<Self, CredentialError> {
        // Before the read, so that a change in between is noticed later.
        let seen = Mutex::new(plan.stamp());
        Ok(Self { plan: plan.clone(), current: RwLock::new(Arc::new(plan.read()?)), seen })
    }

    /// One whose secret was read elsewhere.
    pub(super) fn given(plan: &CredentialPlan, secret: &str) -> Result<Self, CredentialError> {
        let current = RwLock::new(Arc::new(plan.secret(secret)?));
        Ok(Self { plan: plan.clone(), current, seen: Mutex::default() })
    }

    /// Another secret that was read elsewhere.
    pub(super) fn give(&self, secret: &str) -> Result<(), CredentialError> {
        let secret = Arc::new(self.plan.secret(secret)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = secret;
        Ok(())
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.plan.header
    }

    /// What surrounds the secret in its header. A program sends its token in the same form.
    pub(super) fn bare<'a>(&self, value: &'a [u8]) -> &'a [u8] {
        let before = value.strip_prefix(self.plan.before.as_bytes()).unwrap_or(value);
        before.strip_suffix(self.plan.after.as_bytes()).unwrap_or(before)
    }

    pub(super) fn secret(&self) -> Arc<Secret> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads a file again if it changed; `None` when it did not. One that is no good is tried once per version.
    pub(super) fn refresh(&self) -> Option<Result<(), CredentialError>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.plan.stamp();
        if now == *seen {
            return None;
        }
        *seen = now;
        Some(self.plan.read().map(|secret| {
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secret);
        }))
    }
}

impl CredentialPlan {
    fn stamp(&self) -> Option<Stamp> {
        match &self.source {
            Source::File(path) => Stamp::of(path),
            Source::Variable(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Where secrets come from, and that they are not shown.

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn spec(file: &Path) -> CredentialSpec {
        CredentialSpec {
            header: "authorization".into(),
            value: "Bearer {}".into(),
            file: Some(file.to_owned()),
            env: None,
        }
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_read_again_when_it_changes_and_one_that_is_no_good_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write(&path, "sk-canary-1\n", 0o600);
        let credential = Credential::open(&CredentialPlan::new(&spec(&path)).unwrap()).unwrap();
        assert_eq!(credential.secret().value, "Bearer sk-canary-1");
        assert!(credential.refresh().is_none());
        write(&path, "sk-canary-22", 0o600);
        assert!(credential.refresh().unwrap().is_ok());
        assert_eq!(credential.secret().value, "Bearer sk-canary-22");
        for (text, mode) in
            [("", 0o600), ("short", 0o600), ("two\nlines of it", 0o600), ("sk-canary-333", 0o604)]
        {
            write(&path, text, mode);
            assert!(credential.refresh().unwrap().is_err(), "{text:?} {mode:o}");
            assert_eq!(credential.secret().value, "Bearer sk-canary-22");
        }
        assert!(credential.refresh().is_none(), "tried once");
        assert!(!format!("{credential:?}").contains("canary"), "{credential:?}");
    }

    #[test]
    fn a_secret_that_everybody_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write(&path, "sk-canary-1", 0o644);
        let error = Credential::open(&CredentialPlan::new(&spec(&path)).unwrap()).unwrap_err();
        assert!(
            matches!(error, CredentialError::Exposed(_)) && error.to_string().contains("hint: chmod 600")
        );
        let missing = CredentialPlan::new(&spec(&dir.path().join("none"))).unwrap();
        assert!(Credential::open(&missing).is_err());
    }

    #[test]
    fn what_makes_no_credential_is_refused() {
        let file = Path::new("/key");
        let with = |change: fn(&mut CredentialSpec)| {
            let mut spec = spec(file);
            change(&mut spec);
            CredentialPlan::new(&spec).unwrap_err()
        };
        assert_eq!(with(|spec| spec.header = "not a header".into()), InvalidService::Header);
        assert_eq!(with(|spec| spec.header = "Host".into()), InvalidService::Header);
        for value in ["Bearer", "{} {}", "a\n{}"] {
            let spec = CredentialSpec { value: value.into(), ..spec(file) };
            assert_eq!(CredentialPlan::new(&spec).unwrap_err(), InvalidService::Value, "{value}");
        }
        assert_eq!(with(|spec| spec.env = Some("KEY".into())), InvalidService::Source);
        assert_eq!(with(|spec| spec.file = None), InvalidService::Source);
        assert_eq!(with(|spec| spec.file = Some("key".into())), InvalidService::Relative);
        let unset = CredentialSpec { file: None, env: Some("REKINDLE_NO_SUCH_KEY".into()), ..spec(file) };
        let error = Credential::open(&CredentialPlan::new(&unset).unwrap()).unwrap_err();
        assert!(error.to_string().contains("REKINDLE_NO_SUCH_KEY"));
    }
}
