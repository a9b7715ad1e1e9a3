//! TLS in front of a TCP listener, with certificates that may change while it serves.
//!
//! ```text
//! files ──▶ configuration ──▶ every new connection takes the one of now
//!   └─ looked at once a second on a thread; what is no good changes nothing
//! ```
//!
//! The handshake is made by the connection's own task when it first reads, so a slow one holds up nobody.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::connection::{ConnectionInfo, Informed};
use crate::config::refresh::{Refresh, Stamp};
use crate::config::secret_file;

/// Largest file of certificates.
const MAX_FILE: u64 = 4 << 20;

/// What may be spoken inside: HTTP/2, or HTTP/1.1 where the caller knows no better.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Files of the TLS server.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs callers' certificates; every caller needs one then.
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key cannot be read.
    #[error("cannot read {}\nhint: see listen.tls_cert, listen.tls_key and listen.client_ca", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is in the files is no good.
    #[error(
        "the certificates cannot be used: {reason}\nhint: see listen.tls_cert, listen.tls_key and listen.client_ca"
    )]
    Invalid {
        /// Why.
        reason: String,
    },
    /// There can be no thread that looks at the files.
    #[error("the certificates cannot be kept current")]
    Thread(#[source] io::Error),
}

impl TlsFiles {
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let paths = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        paths.into_iter().flatten().map(|path| Stamp::of(path)).collect()
    }

    fn load(&self) -> Result<ServerConfig, TlsError> {
        let invalid = |reason: &dyn std::fmt::Display| TlsError::Invalid { reason: reason.to_string() };
        let builder = ServerConfig::builder();
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(path)?);
                let verifier = WebPkiClientVerifier::builder(roots.into()).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| invalid(&error))?)
            }
        };
        // Again with every change: a key that is replaced is not looked at by anybody else.
        secret_file::check(&self.key).map_err(|error| invalid(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|error| invalid(&format!("{}: {error}", self.key.display())))?;
        let mut config =
            builder.with_single_cert(certificates(&self.cert)?, key).map_err(|error| invalid(&error))?;
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let invalid = |error| TlsError::Invalid { reason: format!("{}: {error}", path.display()) };
    CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().map_err(invalid)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    // Nobody waits for the other end of a pipe.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

/// The certificates in force, kept current until this is dropped.
#[derive(Debug)]
pub struct Tls {
    certificates: Arc<Certificates>,
    refresh: Refresh,
}

#[derive(Debug)]
struct Certificates {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(self.files.load()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }
}

impl Tls {
    /// Reads the files for the first time and looks at them from then on.
    ///
    /// # Errors
    /// See [`TlsError`]: a service does not start on bad files.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        // Before the read, so that a change in between is noticed later.
        let mut seen = files.stamps();
        let current = RwLock::new(Arc::new(files.load()?));
        let certificates = Arc::new(Certificates { files, current });
        let kept = Arc::clone(&certificates);
        let refresh = Refresh::start("certificates", move |asked| {
            let now = kept.files.stamps();
            if !asked && now == seen {
                return;
            }
            seen = now;
            match kept.reload() {
                Ok(()) => tracing::info!("the certificates were read again"),
                Err(error) => {
                    tracing::error!(%error, "the certificates could not be read again; the old ones count");
                }
            }
        });
        Ok(Self { certificates, refresh: refresh.map_err(TlsError::Thread)? })
    }

    /// Reads the files again, here and now. On an error the old certificates stay in force.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn read_again(&self) -> Result<(), TlsError> {
        self.certificates.reload()
    }

    /// Has the files read again. Never waits for the disk.
    pub fn reload(&self) {
        self.refresh.ask();
    }

    /// Takes a connection, whose handshake must be over within this.
    pub(crate) fn accept<IO>(&self, io: IO, within: Duration) -> TlsConnection<IO>
    where
        IO: AsyncRead + AsyncWrite + Informed + Unpin + Send + 'static,
    {
        let info = io.info();
        let config = Arc::clone(&self.certificates.current.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = tokio::time::timeout(within, TlsAcceptor::from(config).accept(io));
        let handshake = Box::pin(async move { handshake.await.unwrap_or_else(|late| Err(late.into())) });
        TlsConnection { state: State::Handshake(handshake), info }
    }
}

type Handshake<IO> = Pin<Box<dyn Future<Output = io::Result<TlsStream<IO>>> + Send>>;

enum State<IO> {
    Handshake(Handshake<IO>),
    Open(Box<TlsStream<IO>>),
    Failed,
}

/// A connection with TLS, which begins when it is first read or written.
pub(crate) struct TlsConnection<IO> {
    state: State<IO>,
    info: ConnectionInfo,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> TlsConnection<IO> {
    fn opened(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<IO>>>> {
        if let State::Handshake(handshake) = &mut self.state {
            let made = ready!(handshake.as_mut().poll(cx));
            self.state = State::Failed;
            self.state = State::Open(Box::new(made?));
        }
        Poll::Ready(match &mut self.state {
            State::Open(stream) => Ok(Pin::new(stream)),
            State::Handshake(_) | State::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl<IO> Informed for TlsConnection<IO> {
    fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsConnection<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.opened(cx))?.poll_read(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsConnection<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.opened(cx))?.poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.opened(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(stream) => Pin::new(stream).poll_shutdown(cx),
            // Nothing was said that would have to be ended in good order.
            State::Handshake(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.opened(cx))?.poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
