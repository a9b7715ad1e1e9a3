//! Whether the files the configuration names can be read. For `config check`; the service finds out itself.

use std::fs::File;
use std::path::Path;

use super::{ConfigError, Loaded, Problem};
use crate::config::secret_file::{self, SecretFileError};
use crate::config::tokens::Tokens;

impl Loaded {
    /// Reads the files as the service would.
    ///
    /// # Errors
    /// With every file that cannot be used.
    pub fn check_files(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        let mut no = |key: &str, message: String, hint: &str| {
            let origin = self.origin(key).to_string();
            problems.push(Problem { origin, key: key.to_owned(), message, hint: hint.to_owned() });
        };
        let listen = &self.config.listen;
        let plain = [
            ("listen.tls_cert", &listen.tls_cert),
            ("listen.tls_key", &listen.tls_key),
            ("listen.client_ca", &listen.client_ca),
            ("engine.firecracker", &self.config.engine.firecracker),
        ];
        for (key, path) in plain {
            if let Some(Err(message)) = path.as_deref().map(readable) {
                no(key, message, "check the path, and run this as the user the service runs as");
            }
        }
        if let Some(Err(error @ SecretFileError::Exposed { .. })) =
            listen.tls_key.as_deref().filter(|key| readable(key).is_ok()).map(secret_file::check)
        {
            let text = error.to_string();
            let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
            no("listen.tls_key", message.to_owned(), hint);
        }
        if let Some(Err(error)) = self.config.auth.tokens.as_deref().map(Tokens::load) {
            let text = match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            // The error brings its own hint where it has one.
            let (message, hint) =
                text.split_once("\nhint: ").unwrap_or((&text, "`rekindle token create` makes one"));
            no("auth.tokens", message.to_owned(), hint);
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid { problems }) }
    }
}

fn readable(path: &Path) -> Result<(), String> {
    let regular = File::open(path).and_then(|file| file.metadata()).map(|data| data.is_file());
    match regular {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{} is not a file", path.display())),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}
