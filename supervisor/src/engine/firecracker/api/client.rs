//! The client: one request at a time over one connection that is kept alive.
//!
//! ```text
//! idle ──request──▶ in use ──answer──▶ idle
//!                      └──(dropped, failed)──▶ closed ──next request──▶ connects anew
//! ```
//!
//! A connection in use is owned by its request: when that is dropped half-way, so is the connection,
//! and no later request reads an answer that is not its own.

use std::io;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::super::socket;
use super::error::ApiError;
use crate::host::untrusted::printable;

/// The longest answer that is read. Faults are a line or two.
const MAX_ANSWER: usize = 64 * 1024;
/// Bytes that are kept of the monitor's own words.
const MAX_WORDS: usize = 4096;
/// Of an answer in no known form.
const MAX_UNKNOWN: usize = 400;

/// The control channel of one monitor.
#[derive(Debug)]
pub struct Api {
    socket: PathBuf,
    idle: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Api {
    /// A channel to the monitor that listens on `socket`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(socket: PathBuf) -> io::Result<Self> {
        let connection = dial(&socket).await?;
        Ok(Self { socket, idle: Mutex::new(Some(connection)) })
    }

    /// Asks whether the monitor is there; what it answers is not looked at.
    ///
    /// # Errors
    /// When the channel fails.
    pub async fn greet(&self) -> Result<(), ApiError> {
        self.send(Method::GET, "/", Vec::new()).await
    }

    /// Sets something up or starts something.
    ///
    /// # Errors
    /// When Firecracker refuses it or the channel fails.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<(), ApiError> {
        self.send(Method::PUT, path, json(path, body)?).await
    }

    /// Changes something.
    ///
    /// # Errors
    /// When Firecracker refuses it or the channel fails.
    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<(), ApiError> {
        self.send(Method::PATCH, path, json(path, body)?).await
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<(), ApiError> {
        let name = || format!("{method} {path}");
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| ApiError::Channel {
            request: format!("{method} {path}"),
            source,
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("Host", "localhost")
            .header("Accept", "application/json")
            .header("Content-Type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| broken(error.into()))?;

        let mut idle = self.idle.lock().await;
        let mut connection = match idle.take() {
            Some(connection) => connection,
            None => {
                dial(&self.socket).await.map_err(|source| ApiError::Connect { request: name(), source })?
            }
        };
        // After an answer the connection's own task has to see its end before it takes another request.
        connection.sender.ready().await.map_err(|error| broken(error.into()))?;
        let answer = connection.sender.send_request(request).await.map_err(|error| broken(error.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(broken)?.to_bytes();
        *idle = Some(connection);
        if status.is_success() {
            return Ok(());
        }
        Err(ApiError::Refused { request: name(), status: status.as_u16(), message: fault(&body) })
    }
}

fn json(path: &str, body: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(body)
        .map_err(|error| ApiError::Channel { request: path.to_owned(), source: error.into() })
}

async fn dial(socket: &Path) -> io::Result<Connection> {
    let stream = socket::connect(socket).await?;
    let (sender, driver) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let driver = tokio::spawn(async move {
        // Its failure shows in the request that is under way.
        let _ = driver.await;
    });
    Ok(Connection { sender, driver: driver.abort_handle() })
}

/// Firecracker's message, or the body itself when it is in no known form.
pub(crate) fn fault(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match json["fault_message"].as_str() {
        Some(message) => printable(message.trim(), MAX_WORDS),
        None => printable(&String::from_utf8_lossy(body), MAX_UNKNOWN),
    }
}
