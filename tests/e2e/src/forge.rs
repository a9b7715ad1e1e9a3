//! Git's own server: `git http-backend` over TLS, called for every request as web servers do (RFC 3875).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::packages::said;

/// A server, for as long as it is kept.
#[derive(Debug)]
pub struct Forge {
    address: SocketAddr,
    repositories: TempDir,
    accepting: AbortHandle,
}

impl Forge {
    /// One without repositories.
    ///
    /// # Errors
    /// Says what this machine lacks.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn open(config: Arc<ServerConfig>) -> Result<Self, String> {
        let programs = said("git", Command::new("git").arg("--exec-path"))?;
        let backend = Path::new(programs.trim()).join("git-http-backend");
        if !backend.is_file() {
            return Err(format!("git has no server here: {} is missing", backend.display()));
        }
        let repositories = tempfile::tempdir().map_err(|error| error.to_string())?;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (tls, root) = (TlsAcceptor::from(config), repositories.path().to_owned());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, root) = (tls.clone(), root.clone());
                tokio::spawn(async move {
                    // A handshake that fails is the client's to tell.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(|request| answer(request, &root));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, repositories, accepting: accepting.abort_handle() })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes an empty repository that anybody may read, and push to if `pushes`.
    ///
    /// # Panics
    /// When git does not.
    pub fn create(&self, path: &str, pushes: bool) {
        let dir = self.dir(path);
        let mut init = git();
        init.args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&dir);
        said("git", &mut init).expect("a repository");
        let settings = [("http.receivepack", pushes.to_string()), ("http.uploadpack", "true".to_owned())];
        for (name, value) in settings {
            let mut set = git();
            said("git", set.arg("-C").arg(&dir).args(["config", name, &value])).expect("a setting");
        }
    }

    /// The subject of the last commit of a repository, if it has one.
    #[must_use]
    pub fn last_commit(&self, path: &str) -> Option<String> {
        let mut log = git();
        log.arg("-C").arg(self.dir(path)).args(["log", "-1", "--format=%s", "main"]);
        said("git", &mut log).ok().map(|subject| subject.trim().to_owned())
    }

    fn dir(&self, path: &str) -> PathBuf {
        self.repositories.path().join(path)
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Git without a person's own settings.
fn git() -> Command {
    let mut command = Command::new("git");
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]);
    command
}

/// What the backend answers to a request.
async fn answer(request: Request<Incoming>, root: &Path) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(called(request, root).await.unwrap_or_else(|error| {
        let mut failed = Response::new(Full::from(error));
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    }))
}

async fn called(request: Request<Incoming>, root: &Path) -> Result<Response<Full<Bytes>>, String> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    let header =
        |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = git();
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .envs([("GIT_HTTP_EXPORT_ALL", ""), ("GATEWAY_INTERFACE", "CGI/1.1")])
        .envs([("SERVER_PROTOCOL", "HTTP/1.1"), ("REMOTE_ADDR", "127.0.0.1")])
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = tokio::process::Command::from(command).spawn().map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("no pipe")?;
    // One that has heard enough reads no further.
    let writing = tokio::spawn(async move { stdin.write_all(&body).await });
    let said = child.wait_with_output().await.map_err(|error| error.to_string())?.stdout;
    writing.abort();
    parsed(&said).ok_or_else(|| format!("not an answer: {}", String::from_utf8_lossy(&said)))
}

/// The answer that a program printed.
fn parsed(said: &[u8]) -> Option<Response<Full<Bytes>>> {
    let end = said.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let mut answer = Response::builder();
    for line in std::str::from_utf8(&said[..end]).ok()?.lines() {
        let (name, value) = line.split_once(": ")?;
        answer = match name {
            "Status" => answer.status(value.split(' ').next()?),
            name => answer.header(name, value),
        };
    }
    answer.body(Full::from(said[end + 4..].to_vec())).ok()
}
