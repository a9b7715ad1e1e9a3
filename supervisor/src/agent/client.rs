//! The handle to one agent, and the session behind it.
//!
//! ```text
//!   connect ──► open ──► over      every operation fails as `Lost`, with what ended it
//!                 │
//!                 └── last handle dropped: closed in good order, cut after `CLOSE_GRACE`
//! ```
//!
//! One task moves the bytes of a session. An operation under way holds the session, so dropping the last
//! client does not cut it off.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rekindle_protocol::limits::{MAX_EXECUTIONS, MAX_PORT_CONNECTIONS, MAX_STREAMS, MAX_WATCHES};
use rekindle_protocol::mux::{self, Incoming, Opener, Side, Stream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument as _;

use super::bulk::{BulkStream, Calls, UnderWayCall};
use super::error::{AgentError, Refusal};
use super::hello::Hello;
use super::user::GuestUser;
use crate::host::meter::Meter;

/// The minor protocol version that brought users, metadata, depths and writing in place.
pub(super) const FILES_SINCE: u32 = 7;
/// Transfers under way at once, kept apart so that they are not in the way of executions.
const MAX_TRANSFERS: usize = 64;
/// Short calls under way at once, kept apart so that a full house of executions can still be signalled.
const MAX_CALLS: usize = 32;
/// All of them are at most half of what there may be: a stream counts until the other side has seen its end, and one
/// too many would end the session for everyone.
const MAX_OPERATIONS: usize = MAX_EXECUTIONS + MAX_TRANSFERS + MAX_WATCHES + MAX_PORT_CONNECTIONS + MAX_CALLS;
const _: () = assert!(2 * MAX_OPERATIONS <= MAX_STREAMS);
/// Streams of the guest that wait to be taken up; one more is refused.
const MAX_WAITING_STREAMS: usize = 128;
/// How long a session may take to close before the byte stream is dropped under it.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// How long the end of a stream may precede the end of its session for the two to be the same event.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A handle to the agent in one guest. Clones share the session, which closes with the last of them.
#[derive(Debug, Clone)]
pub struct AgentClient {
    pub(super) session: Arc<Session>,
    pub(super) hello: Arc<Hello>,
    /// Whose rights over files this handle has.
    pub(super) user: GuestUser,
}

impl AgentClient {
    /// What the agent said about itself.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The same agent, whose files are looked at and changed with this user's rights from now on.
    #[must_use]
    pub fn as_user(&self, user: GuestUser) -> Self {
        Self { user, ..self.clone() }
    }

    /// Whether the agent heeds what only later versions of the protocol have: an older one would ignore it, and is not
    /// asked.
    ///
    /// # Errors
    /// A refusal, where it would not.
    pub(super) fn heeds(
        &self,
        operation: &'static str,
        what: &str,
        since_minor: u32,
    ) -> Result<(), AgentError> {
        if self.hello.version.minor >= since_minor {
            return Ok(());
        }
        let message = format!("the agent does not know {what}: the template has to be built again");
        Err(AgentError::Refused { operation, kind: Refusal::UnknownRequest, message })
    }

    /// The user's name for a request about files.
    ///
    /// # Errors
    /// A refusal by name, where the agent would use the sandbox's own user.
    pub(super) fn wire_user(&self, operation: &'static str) -> Result<String, AgentError> {
        if self.user != GuestUser::User {
            self.heeds(operation, "other users for files", FILES_SINCE)?;
        }
        Ok(self.user.to_wire())
    }

    /// The supervisor's own processor time for this guest.
    #[must_use]
    pub fn meter(&self) -> &Arc<Meter> {
        &self.session.meter
    }

    /// Completes when the session is over.
    pub async fn closed(&self) {
        self.session.over().await;
    }

    /// The streams that the guest opens from now on, each for one connection to the outside. Whoever takes them last
    /// has them; while nobody does, each is refused as it arrives.
    #[must_use]
    pub fn take_streams(&self) -> mpsc::Receiver<BulkStream> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_STREAMS);
        self.session.taker.set(Some(sender));
        receiver
    }
}

/// Who takes the streams that the guest opens.
#[derive(Debug, Default)]
struct Taker(Mutex<Option<mpsc::Sender<BulkStream>>>);

impl Taker {
    fn set(&self, sender: Option<mpsc::Sender<BulkStream>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sender;
    }

    /// Hands streams over until the session ends. One that nobody takes is dropped, which resets it.
    async fn hand_over(&self, mut incoming: Incoming, calls: Arc<Calls>) {
        while let Some(stream) = incoming.next().await {
            if let Some(sender) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = sender.try_send(BulkStream::new(stream, Arc::clone(&calls)));
            }
        }
        self.set(None);
    }
}

/// What an operation counts as, of which there may be so many at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lane {
    Execution,
    Transfer,
    /// Short; it waits for its turn.
    Call,
    /// Lasts as long as somebody wants to know.
    Watch,
    /// A connection to a port, which may last; it waits for its turn as well.
    Port,
}

/// How a session ended; nothing when the peer closed it in good order.
type Ended = Option<Arc<io::Error>>;

/// A multiplexed connection, kept open by whoever holds it.
#[derive(Debug)]
pub(super) struct Session {
    opener: Opener,
    ended: watch::Receiver<Option<Ended>>,
    executions: Arc<Semaphore>,
    transfers: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    ports: Arc<Semaphore>,
    taker: Arc<Taker>,
    /// Those that go before transfers of programs.
    calls_under_way: Arc<Calls>,
    /// What it costs to read what the guest says.
    pub(super) meter: Arc<Meter>,
    /// Dropped with the session, which tells its task that nobody waits any more.
    _held: oneshot::Sender<()>,
}

impl Session {
    /// Starts moving bytes on a stream on which the preamble has finished.
    pub(super) fn start(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Arc<Self> {
        let (opener, incoming, driver) = mux::session(io, Side::Host);
        let taker = Arc::new(Taker::default());
        let meter = Arc::new(Meter::default());
        let calls_under_way = Arc::new(Calls::default());
        let (hand_over, metered) = (Arc::clone(&taker), Arc::clone(&meter));
        let calls = Arc::clone(&calls_under_way);
        tokio::spawn(async move { metered.run(hand_over.hand_over(incoming, calls)).await });
        let (tell_end, ended) = watch::channel(None);
        let (held, released) = oneshot::channel::<()>();
        let metered = Arc::clone(&meter);
        let run = async move {
            let abandoned = async {
                let _ = released.await;
                tokio::time::sleep(CLOSE_GRACE).await;
            };
            let end = tokio::select! {
                end = metered.run(driver.run()) => end.err().map(Arc::new),
                () = abandoned => None,
            };
            tell_end.send_replace(Some(end));
        };
        tokio::spawn(run.in_current_span());
        Arc::new(Self {
            opener,
            ended,
            executions: Arc::new(Semaphore::new(MAX_EXECUTIONS)),
            transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            ports: Arc::new(Semaphore::new(MAX_PORT_CONNECTIONS)),
            taker,
            calls_under_way,
            meter,
            _held: held,
        })
    }

    /// What makes transfers of programs wait for an operation that may be short.
    pub(super) fn goes_first(&self, lane: Lane) -> Option<UnderWayCall> {
        matches!(lane, Lane::Execution | Lane::Call).then(|| self.calls_under_way.begin())
    }

    /// Opens a stream for one operation, with the permit it must hold as long as the stream.
    pub(super) async fn open(
        &self,
        operation: &'static str,
        lane: Lane,
        deadline: Instant,
    ) -> Result<(Stream, OwnedSemaphorePermit), AgentError> {
        let asked = Instant::now();
        let permit = match lane {
            Lane::Execution => {
                Arc::clone(&self.executions).try_acquire_owned().map_err(|_| AgentError::Busy)?
            }
            Lane::Transfer => {
                Arc::clone(&self.transfers).try_acquire_owned().map_err(|_| AgentError::Busy)?
            }
            Lane::Watch => Arc::clone(&self.watches).try_acquire_owned().map_err(|_| AgentError::Busy)?,
            Lane::Call | Lane::Port => {
                // Those that have a place may keep it for long: who gets one late must not run out of time with the
                // agent, which would look lost.
                let (places, until) = match lane {
                    Lane::Port => (&self.ports, asked + deadline.saturating_duration_since(asked) / 2),
                    _ => (&self.calls, deadline),
                };
                let permit = Arc::clone(places).acquire_owned();
                let permit = timeout_at(until, permit).await.map_err(|_| AgentError::Busy)?;
                permit.map_err(|_| AgentError::Busy)?
            }
        };
        match timeout_at(deadline, self.opener.open()).await {
            Ok(Ok(stream)) => Ok((stream, permit)),
            Ok(Err(_)) => Err(self.broken(operation).await),
            Err(_) => Err(AgentError::Silent { operation, waited: asked.elapsed() }),
        }
    }

    /// What to say when a stream has ended before its time: the session's end, if that is why.
    pub(super) async fn broken(&self, operation: &'static str) -> AgentError {
        match timeout(LAST_WORDS, self.over()).await {
            Ok(cause) => AgentError::Lost { operation, cause },
            Err(_) => AgentError::Abandoned { operation },
        }
    }

    async fn over(&self) -> Ended {
        let mut ended = self.ended.clone();
        // The sender is gone without a word only when the whole runtime goes down.
        ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone().flatten())
    }
}

#[cfg(test)]
mod tests;
