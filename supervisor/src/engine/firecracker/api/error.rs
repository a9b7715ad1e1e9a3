//! What can go wrong on the control channel.

use std::io;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Firecracker refused it.
    #[error("{request} was refused with status {status}: {message}")]
    Refused {
        /// Method and path.
        request: String,
        /// The status of the answer.
        status: u16,
        /// Firecracker's own words.
        message: String,
    },
    /// The socket cannot be connected to.
    #[error("the control socket cannot be connected to for {request}")]
    Connect {
        /// Method and path.
        request: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The channel broke, usually because the monitor has ended.
    #[error("the control channel failed during {request}")]
    Channel {
        /// Method and path.
        request: String,
        /// What the HTTP client said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
