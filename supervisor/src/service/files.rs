//! Moves files in and out of a sandbox, and looks at them.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::call::Call;
use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::registry::Service;
use crate::agent::{
    AgentClient, AgentError, Downloaded, FileInfo, GuestPath, Listing, MkdirOptions, Refusal,
    TransferPatience, UploadOptions, UserPath,
};

/// How long a look at files may take.
pub(super) const LOOK: Duration = Duration::from_secs(60);
/// How long a whole tree may take to be removed.
const REMOVE: Duration = Duration::from_secs(600);
/// How long a move may take: between file systems it is a copy.
const MOVE: Duration = Duration::from_secs(600);

impl Service {
    /// Writes one file, whole or, unless it is written in place, not at all: it is on the sandbox's disk when this returns. While the host's disk is
    /// nearly full, nothing is taken that might not be.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn upload(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
        options: UploadOptions,
        source: impl AsyncRead + Unpin + Send,
    ) -> Result<FileInfo, ServiceError> {
        let mut call = self.file_call(caller, sandbox, "upload", path)?;
        if let Err(low) = self.pool().disk().check() {
            let refused = Err(ServiceError::LowDisk(low));
            call.done(&refused);
            return refused;
        }
        let agent = call.sandbox().agent().as_user(path.user);
        let counter = AtomicU64::new(0);
        let source = Counted { inner: source, counter: &counter };
        let done = call.wait(agent.upload(&path.path, options, source, self.patience())).await;
        let done = done.map_err(|error| self.blame_disk(error));
        call.note(|entry| entry.bytes_in = counter.load(Ordering::Relaxed));
        call.done(&done);
        done
    }

    /// Reads one file, or a directory as a tar archive, into `sink`. What was written before an error must be
    /// thrown away.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn download(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
        max_bytes: u64,
        sink: impl AsyncWrite + Unpin + Send,
    ) -> Result<Downloaded, ServiceError> {
        let most = self.config().max_download_bytes;
        ServiceError::bound("max_bytes", max_bytes, most)?;
        let max_bytes = if max_bytes == 0 { most } else { max_bytes };
        let mut call = self.file_call(caller, sandbox, "download", path)?;
        let agent = call.sandbox().agent().as_user(path.user);
        let counter = AtomicU64::new(0);
        let sink = Counted { inner: sink, counter: &counter };
        let done = call.wait(agent.download(&path.path, max_bytes, sink, self.patience())).await;
        call.note(|entry| entry.bytes_out = counter.load(Ordering::Relaxed));
        call.done(&done);
        done
    }

    /// Lists a directory, and so many levels below it: 0 and 1 mean the directory alone.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn list_files(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
        depth: u32,
        max_entries: u32,
    ) -> Result<Listing, ServiceError> {
        let question =
            |agent: AgentClient| async move { agent.list_tree(&path.path, depth, max_entries, LOOK).await };
        self.ask(caller, sandbox, "list_files", path, question).await
    }

    /// Describes one path.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn stat(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
    ) -> Result<FileInfo, ServiceError> {
        let question = |agent: AgentClient| async move { agent.stat(&path.path, false, LOOK).await };
        self.ask(caller, sandbox, "stat", path, question).await
    }

    /// Describes what a path leads to, through symbolic links.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn stat_target(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
    ) -> Result<FileInfo, ServiceError> {
        let question = |agent: AgentClient| async move { agent.stat(&path.path, true, LOOK).await };
        self.ask(caller, sandbox, "stat", path, question).await
    }

    /// Removes a file or a directory.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn remove(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
        recursive: bool,
    ) -> Result<(), ServiceError> {
        let question = |agent: AgentClient| async move { agent.remove(&path.path, recursive, REMOVE).await };
        self.ask(caller, sandbox, "remove", path, question).await
    }

    /// Makes a directory, with the parents it needs.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn make_dir(
        &self,
        caller: &Caller,
        sandbox: &str,
        path: &UserPath,
        options: MkdirOptions,
    ) -> Result<FileInfo, ServiceError> {
        let question = |agent: AgentClient| async move { agent.mkdir(&path.path, options, LOOK).await };
        self.ask(caller, sandbox, "make_dir", path, question).await
    }

    /// Gives a file or a directory another path, with the rights of whose path it has.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn rename(
        &self,
        caller: &Caller,
        sandbox: &str,
        from: &UserPath,
        to: &GuestPath,
        must_not_exist: bool,
    ) -> Result<FileInfo, ServiceError> {
        let question =
            |agent: AgentClient| async move { agent.rename(&from.path, to, must_not_exist, MOVE).await };
        self.ask(caller, sandbox, "move", from, question).await
    }

    /// A guest cannot tell why its disk failed. Where the host's is full, that is why.
    fn blame_disk(&self, error: ServiceError) -> ServiceError {
        let of_the_disk = matches!(
            &error,
            ServiceError::Agent(AgentError::Refused { kind: Refusal::Internal | Refusal::NoSpace, .. })
        );
        match self.pool().disk().check() {
            Err(low) if of_the_disk => ServiceError::LowDisk(low),
            _ => error,
        }
    }

    /// A transfer may take as long as its sandbox may live: a slow caller is not a lost agent.
    fn patience(&self) -> TransferPatience {
        TransferPatience { total: self.config().max_ttl, ..TransferPatience::default() }
    }

    /// One question about a path, as its user, from the caller's rights to the line in the timeline.
    async fn ask<T, F: Future<Output = Result<T, AgentError>>>(
        &self,
        caller: &Caller,
        sandbox: &str,
        name: &'static str,
        path: &UserPath,
        question: impl FnOnce(AgentClient) -> F,
    ) -> Result<T, ServiceError> {
        let call = self.file_call(caller, sandbox, name, path)?;
        let done = call.wait(question(call.sandbox().agent().as_user(path.user))).await;
        call.done(&done);
        done
    }

    pub(super) fn file_call(
        &self,
        caller: &Caller,
        sandbox: &str,
        name: &'static str,
        path: &UserPath,
    ) -> Result<Call, ServiceError> {
        caller.require(Scope::Files)?;
        let sandbox = self.alive(caller, sandbox)?;
        sandbox.check_user(caller, path.user)?;
        Call::begin(self, sandbox, &caller.origin, name, &path.to_string())
    }
}

/// Counts what passes.
struct Counted<'a, T> {
    inner: T,
    counter: &'a AtomicU64,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<'_, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.counter.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<'_, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, data);
        if let Poll::Ready(Ok(written)) = &polled {
            self.counter.fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
