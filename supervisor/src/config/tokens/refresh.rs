//! The thread that looks at a tokens file: each second, and at once when asked to.
//!
//! A stalled mount holds up this thread and nobody else: calls go on with the tokens there are, and nothing waits
//! for the thread when the service ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::TokenFile;

/// How often it looks whether the file changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keeps a tokens file current until it is dropped.
#[derive(Debug)]
pub struct TokenRefresh {
    asked: SyncSender<()>,
}

impl TokenRefresh {
    /// Starts to look.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(file: Arc<TokenFile>) -> io::Result<Self> {
        // One wish is as good as many.
        let (asked, wishes) = sync_channel(1);
        thread::Builder::new().name("tokens".to_owned()).spawn(move || look(&file, &wishes))?;
        Ok(Self { asked })
    }

    /// Has the file read again, changed or not. Never waits.
    pub fn ask(&self) {
        // A full channel means that it is about to be.
        let _ = self.asked.try_send(());
    }
}

fn look(file: &TokenFile, wishes: &Receiver<()>) {
    loop {
        let read = match wishes.recv_timeout(LOOK_EVERY) {
            Ok(()) => Some(file.reload()),
            Err(RecvTimeoutError::Timeout) => file.refresh_if_changed(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match read {
            Some(Ok(change)) => tracing::info!(
                added = change.added.len(),
                removed = change.removed.len(),
                changed = change.changed.len(),
                "the tokens were read again"
            ),
            Some(Err(error)) => {
                tracing::error!(%error, "the tokens could not be read again; the old ones count");
            }
            None => {}
        }
    }
}
