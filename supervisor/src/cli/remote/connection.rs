//! Finds the server a command is for and connects to it: the options, else this machine's socket.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle::config::Dirs;
use rekindle::telemetry::{Origin, Step};
use rekindle_api::client::{Client, Connection, Target};

use super::origin;
use crate::cli::args::ServerOptions;

/// Where root's server listens.
const ROOT_SOCKET: &str = "/run/rekindle/rekindle.sock";
/// What the socket is called in the data directory of anyone else.
const SOCKET: &str = "rekindle.sock";

/// Connects.
pub async fn connect(options: &ServerOptions) -> anyhow::Result<Client> {
    let (connection, token) = open(options).await?;
    Ok(connection.client(token.as_deref())?)
}

/// Connects, for calls with this token or with others.
pub async fn open(options: &ServerOptions) -> anyhow::Result<(Connection, Option<String>)> {
    let target = target(options)?;
    let token = token(options)?;
    let inherited = std::env::var("TRACEPARENT").ok();
    let Origin { trace, step } = origin::origin(&options.origin, inherited.as_deref())?;
    let trace = trace.map(|trace| trace.to_string());
    let connection = Connection::open(&target).await?;
    Ok((connection.part_of(trace.as_deref(), step.as_ref().map(Step::as_str))?, token))
}

fn target(options: &ServerOptions) -> anyhow::Result<Target> {
    // An empty variable means unset.
    let Some(server) = options.server.as_deref().filter(|server| !server.is_empty()) else {
        return Ok(Target::Socket(default_socket(nix::unistd::geteuid().is_root())?));
    };
    if let Some(path) = server.strip_prefix("unix:") {
        // unix:///path is how others write it.
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            bail!("{server:?} names no socket\nhint: use unix:/PATH");
        }
        return Ok(Target::Socket(path.into()));
    }
    if server.starts_with("http://") {
        bail!("{server:?} would send the token for all to read\nhint: use https://HOST:PORT or unix:/PATH");
    }
    if !server.starts_with("https://") {
        bail!("{server:?} is no address of a server\nhint: use https://HOST:PORT or unix:/PATH");
    }
    let ca = options.ca.as_deref().map(read).transpose()?;
    let identity = match (&options.client_cert, &options.client_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    Ok(Target::Tls { url: server.to_owned(), ca, identity })
}

fn default_socket(root: bool) -> anyhow::Result<PathBuf> {
    if root { Ok(ROOT_SOCKET.into()) } else { Ok(Dirs::find()?.data.join(SOCKET)) }
}

fn token(options: &ServerOptions) -> anyhow::Result<Option<String>> {
    let text = match (&options.token_file, &options.token) {
        (Some(file), _) => String::from_utf8(read(file)?)
            .ok()
            .with_context(|| format!("{} has no token in it\nhint: a token is text", file.display()))?,
        (None, Some(token)) => token.clone(),
        (None, None) => return Ok(None),
    };
    let token = text.trim();
    if token.is_empty() && options.token_file.is_some() {
        bail!("the file with the token is empty\nhint: `rekindle token` makes tokens");
    }
    Ok(Some(token.to_owned()).filter(|token| !token.is_empty()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    //! Which server is meant, and which token is shown.

    use super::*;

    fn on(server: &str) -> ServerOptions {
        ServerOptions { server: Some(server.into()), ..ServerOptions::default() }
    }

    #[test]
    fn sockets_and_tls_are_told_apart() {
        for text in ["unix:/run/x.sock", "unix:///run/x.sock"] {
            let Ok(Target::Socket(path)) = target(&on(text)) else { panic!("{text}") };
            assert_eq!(path, Path::new("/run/x.sock"));
        }
        assert!(matches!(target(&on("https://host:7443")), Ok(Target::Tls { ca: None, .. })));
        for wrong in ["unix:x.sock", "unix:", "http://host:1", "host:7443", "/run/x.sock"] {
            let error = target(&on(wrong)).expect_err(wrong).to_string();
            assert!(error.contains("\nhint: use "), "{error}");
        }
    }

    #[test]
    fn the_socket_of_this_machine_is_meant_when_nothing_is_said() {
        assert_eq!(default_socket(true).expect("known"), Path::new("/run/rekindle/rekindle.sock"));
        assert!(matches!(target(&on("")), Ok(Target::Socket(_))));
    }

    #[test]
    fn a_token_loses_the_line_break_of_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        std::fs::write(&file, "secret\n").expect("written");
        let options = ServerOptions {
            token: Some("other".into()),
            token_file: Some(file.clone()),
            ..ServerOptions::default()
        };
        assert_eq!(token(&options).expect("read").as_deref(), Some("secret"), "the file goes first");
        std::fs::write(&file, "\n").expect("written");
        assert!(token(&options).is_err());
        assert_eq!(token(&ServerOptions::default()).expect("none"), None);
    }
}
