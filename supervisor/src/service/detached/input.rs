//! Writes to the standard input of a detached execution.

use std::time::Duration;

use bytes::Bytes;

use crate::service::caller::Caller;
use crate::service::error::ServiceError;
use crate::service::registry::Service;

/// How long after its start a program at a terminal has to print something before it is typed on all the same.
const FIRST_WORDS: Duration = Duration::from_secs(2);

impl Service {
    /// Waits until a program at a terminal has begun to print, as a shell does when it begins to read: what is typed
    /// from then on meets somebody. One that stays silent is waited for only in its first seconds, and one without a
    /// terminal not at all.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn until_terminal_speaks(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
    ) -> Result<(), ServiceError> {
        let (_, job) = self.job(caller, sandbox, execution)?;
        if job.terminal {
            job.first_words(FIRST_WORDS).await;
        }
        Ok(())
    }

    /// Writes more input, ends it, or both; waits for the program to read. Several who write take turns. Dropping the
    /// future may leave a part written.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn send_input(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
        data: Bytes,
        end: bool,
    ) -> Result<(), ServiceError> {
        let (sandbox, job) = self.job(caller, sandbox, execution)?;
        sandbox.check_running(&sandbox.lock())?;
        job.check_runs()?;
        let write = async {
            let mut input = job.input.lock().await;
            let Some(open) = input.as_mut() else {
                return Err(ServiceError::invalid("live_stdin was not asked for, or the input has ended"));
            };
            open.send(data).await.map_err(|_| ServiceError::ExecutionEnded)?;
            if end && let Some(input) = input.take() {
                input.eof();
                job.progress().takes_input = false;
            }
            Ok(())
        };
        tokio::select! {
            written = write => written,
            // A program that ends without reading leaves who writes nothing to wait for.
            ended = job.ended() => Err(ended.err().map_or(ServiceError::ExecutionEnded, ServiceError::Shared)),
        }
    }
}
