//! Why an operation failed, as the agent tells it to the host: one type, made from every cause there is.

use std::io;

use rekindle_protocol::limits::MAX_MESSAGE_BYTES;
use rekindle_protocol::wire::{self, ErrorCode};

/// A failed operation: a code for programs and a sentence for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What programs decide by.
    pub code: ErrorCode,
    /// What people read.
    pub message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    /// The agent itself could not do something.
    pub fn internal(doing: &str, error: &io::Error) -> Self {
        Self::new(ErrorCode::Internal, format!("{doing}: {error}"))
    }

    /// A system call on behalf of the caller failed: the code is chosen by what the system said.
    pub fn system(doing: &str, error: &io::Error) -> Self {
        let code = match error.raw_os_error() {
            Some(libc::ENOENT) => ErrorCode::NotFound,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => ErrorCode::PermissionDenied,
            Some(libc::EEXIST) => ErrorCode::AlreadyExists,
            Some(libc::ENOTDIR) => ErrorCode::NotADirectory,
            Some(libc::EISDIR) => ErrorCode::IsADirectory,
            Some(libc::ENOTEMPTY) => ErrorCode::NotEmpty,
            Some(libc::ENOSPC | libc::EDQUOT) => ErrorCode::NoSpace,
            Some(libc::EFBIG | libc::E2BIG) => ErrorCode::TooLarge,
            // Opening a socket, or a device without a driver, says ENXIO or ENODEV.
            Some(libc::ELOOP | libc::ENAMETOOLONG | libc::EINVAL | libc::ENXIO | libc::ENODEV) => {
                ErrorCode::InvalidArgument
            }
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => ErrorCode::Busy,
            _ => ErrorCode::Internal,
        };
        Self::new(code, format!("{doing}: {error}"))
    }

    /// The message that carries it, bounded.
    pub fn into_response(mut self) -> wire::Response {
        if self.message.len() > MAX_MESSAGE_BYTES {
            let end = self.message.floor_char_boundary(MAX_MESSAGE_BYTES);
            self.message.truncate(end);
        }
        wire::Response {
            reply: Some(wire::response::Reply::Error(wire::Error {
                code: self.code as i32,
                message: self.message,
            })),
        }
    }
}
