//! Whether callers may use this guest, and what the supervisor said about the sandbox it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_protocol::wire::{self, ErrorCode};

use crate::failure::Failure;

/// What the supervisor said about the sandbox this guest is.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// Variables every execution sees, already checked.
    pub env: Vec<wire::EnvVar>,
    /// Largest file that may be uploaded.
    pub upload_bytes: u64,
    /// Full output kept for each stream of an execution.
    pub spilled_output_bytes: u64,
}

/// Whether callers may use this guest.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
}

/// What it is.
#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    Closed,
    Open(Arc<Sandbox>),
    Failed,
}

impl Gate {
    /// The sandbox behind the open gate.
    ///
    /// # Errors
    /// When the gate is not open.
    pub fn pass(&self) -> Result<Arc<Sandbox>, Failure> {
        match &*self.lock() {
            State::Open(sandbox) => Ok(sandbox.clone()),
            State::Closed => Err(Failure::new(
                ErrorCode::GateClosed,
                "the restore gate is closed: this guest has not been made a sandbox yet",
            )),
            State::Failed => Err(Failure::new(
                ErrorCode::GateFailed,
                "the restore gate could not be opened: this guest must not be used",
            )),
        }
    }

    /// Closes it; what it was open for, so that it can be opened again.
    ///
    /// # Errors
    /// When it is not open.
    pub(super) fn close(&self) -> Result<Arc<Sandbox>, Failure> {
        let sandbox = self.pass()?;
        *self.lock() = State::Closed;
        Ok(sandbox)
    }

    /// Opens it again.
    pub(super) fn reopen(&self, sandbox: Arc<Sandbox>) {
        *self.lock() = State::Open(sandbox);
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        matches!(*self.lock(), State::Open(_))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
