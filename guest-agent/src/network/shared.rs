//! What the parts of the network share: names, the way to the host, and a thread for connections. The agent has one.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rekindle_protocol::limits::MAX_PORT_CONNECTIONS;
use rekindle_protocol::mux::{Opener, SessionOver, Stream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::names::Names;
use super::thread;

/// What the parts of it share.
#[derive(Debug)]
pub struct Network {
    names: Mutex<Names>,
    /// Opens streams to the host, while there is a session.
    session: Mutex<Option<Opener>>,
    /// Places for connections of the host to ports of the guest.
    pub(super) ports: Semaphore,
    /// Where bytes of connections are moved.
    thread: OnceLock<Handle>,
}

impl Default for Network {
    fn default() -> Self {
        let ports = Semaphore::new(MAX_PORT_CONNECTIONS);
        Self { names: Mutex::default(), session: Mutex::default(), ports, thread: OnceLock::new() }
    }
}

impl Network {
    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event loop of connections; it is started when it is needed first, which is before a snapshot is taken.
    pub(super) fn thread(&self) -> io::Result<Handle> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread.clone());
        }
        let thread = thread::start(crate::begin_thread)?;
        Ok(self.thread.get_or_init(|| thread).clone())
    }

    /// Says through whom the host is asked from now on; `None` when nobody can.
    pub fn set_session(&self, opener: Option<Opener>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = opener;
    }

    pub(super) async fn open_stream(&self) -> Result<Stream, SessionOver> {
        let opener = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        opener.ok_or(SessionOver)?.open().await
    }
}
