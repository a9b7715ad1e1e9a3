//! The guests of one test: how they behave, and what they have seen. The session writes here, tests read.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_protocol::mux::{Opener, RawStream, Stream};
use rekindle_protocol::{frame, wire};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use crate::files::Files;
use crate::{hostile, session};

/// The signal that asks a program to end.
const TERMINATE: u32 = 15;

/// How a guest behaves. A test changes what its case needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Manner {
    /// Holds the connection open without a word.
    pub silent: bool,
    /// Says hello and then nothing when its gate is to be opened.
    pub silent_gate: bool,
    /// Does not open its gate.
    pub refuses_gate: bool,
    /// Opens its gate and refuses to open it again, as agents before protocol 2.1 do.
    pub refuses_renewal: bool,
    /// Says that it is quiet and stays on the line.
    pub stays_on_the_line: bool,
    /// Does not know how to set its clock, as agents before protocol 3.4.
    pub refuses_clock: bool,
    /// Has no room to leave everything on its disk.
    pub refuses_stop: bool,
    /// Never says that everything is on its disk.
    pub silent_stop: bool,
    /// Every execution ends with this exit code instead of what it was told.
    pub exit_code: Option<u8>,
    /// Every result claims that this much was printed, all but cut out.
    pub claimed_output: Option<u64>,
}

/// All guests of one test; clones are the same guests.
#[derive(Debug, Clone, Default)]
pub struct Guests {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    manner: Mutex<Manner>,
    /// The manners of the next ones.
    next: Mutex<VecDeque<Manner>>,
    all: Mutex<Vec<Guest>>,
    hostile: Mutex<Option<Hostility>>,
}

/// Guests that mean harm.
#[derive(Debug)]
struct Hostility {
    seed: u64,
    guests: Vec<AbortHandle>,
}

impl Guests {
    /// Guests that behave like this.
    #[must_use]
    pub fn with(manner: Manner) -> Self {
        let guests = Self::default();
        guests.behave(manner);
        guests
    }

    /// Lets guests that connect from now on behave like this.
    pub fn behave(&self, manner: Manner) {
        *lock(&self.shared.manner) = manner;
    }

    /// Lets the next guest that connects, of which nothing was said yet, behave like this.
    pub fn next_behaves(&self, manner: Manner) {
        lock(&self.shared.next).push_back(manner);
    }

    /// Lets every guest that connects from now on mean harm, each as this seed has it, until they are pacified.
    pub fn turn_hostile(&self, seed: u64) {
        *lock(&self.shared.hostile) = Some(Hostility { seed, guests: Vec::new() });
    }

    /// Ends the guests that mean harm; those that connect from now on do as they are told.
    pub fn pacify(&self) {
        let hostile = lock(&self.shared.hostile).take();
        hostile.into_iter().flat_map(|hostility| hostility.guests).for_each(|guest| guest.abort());
    }

    /// Every guest in good faith that was connected to, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Guest> {
        lock(&self.shared.all).clone()
    }

    /// What an engine does with a connection. Needs a runtime when it is called.
    pub fn handler(&self) -> impl Fn(DuplexStream) + Send + Sync + 'static {
        let guests = self.clone();
        move |io| {
            if let Some(hostility) = lock(&guests.shared.hostile).as_mut() {
                let seed = hostility.seed.wrapping_add((hostility.guests.len() as u64) << 40);
                let guest = tokio::spawn(hostile::serve(seed, io));
                return hostility.guests.push(guest.abort_handle());
            }
            let next = lock(&guests.shared.next).pop_front();
            let guest = Guest::new(next.unwrap_or_else(|| *lock(&guests.shared.manner)));
            lock(&guests.shared.all).push(guest.clone());
            tokio::spawn(session::serve(guest, io));
        }
    }
}

/// One guest; clones are the same one.
#[derive(Debug, Clone)]
pub struct Guest {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    manner: Manner,
    /// The restores that were accepted; the gate is open when `open` says so.
    restores: Mutex<Vec<wire::RestoreRequest>>,
    open: Mutex<bool>,
    clocks: Mutex<Vec<u64>>,
    executed: Mutex<Vec<String>>,
    running: Mutex<HashMap<u64, mpsc::UnboundedSender<u32>>>,
    next_execution: AtomicU64,
    files: Mutex<Files>,
    refusals: Mutex<VecDeque<wire::ErrorCode>>,
    crash: Notify,
    /// Opens streams to the host, while there is a session.
    opener: Mutex<Option<Opener>>,
    /// Who serves which port.
    ports: Mutex<HashMap<u16, mpsc::UnboundedSender<RawStream>>>,
}

impl Guest {
    /// Says through whom the host is reached from now on.
    pub(crate) fn connects_by(&self, opener: Option<Opener>) {
        *lock(&self.state.opener) = opener;
    }

    /// A stream to the host; nothing when there is no session.
    pub(crate) async fn open_stream(&self) -> Option<Stream> {
        let opener = lock(&self.state.opener).clone();
        opener?.open().await.ok()
    }

    /// Asks the host for a connection on behalf of an execution, whose program says this at once, and gives the stream
    /// with what the host has decided.
    ///
    /// # Panics
    /// When there is no session, or the host says nothing.
    pub async fn dial(
        &self,
        host: &str,
        port: u16,
        execution: u64,
        said: &[u8],
    ) -> (RawStream, wire::egress_verdict::Verdict) {
        let mut stream = self.open_stream().await.expect("a session");
        let target = Some(wire::egress_request::Target::Name(host.to_owned()));
        let request = wire::EgressRequest { target, port: port.into(), execution };
        frame::write(&mut stream, &request).await.expect("asked");
        stream.write_all(said).await.expect("said");
        stream.flush().await.expect("said");
        let verdict = frame::read::<wire::EgressVerdict>(&mut stream).await.expect("read");
        let verdict = verdict.and_then(|verdict| verdict.verdict).expect("a verdict");
        (RawStream::new(stream), verdict)
    }

    fn new(manner: Manner) -> Self {
        let state = State {
            manner,
            restores: Mutex::default(),
            open: Mutex::default(),
            clocks: Mutex::default(),
            executed: Mutex::default(),
            running: Mutex::default(),
            next_execution: AtomicU64::new(1),
            files: Mutex::default(),
            refusals: Mutex::default(),
            crash: Notify::new(),
            opener: Mutex::default(),
            ports: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// The restores it accepted, oldest first.
    #[must_use]
    pub fn restores(&self) -> Vec<wire::RestoreRequest> {
        lock(&self.state.restores).clone()
    }

    /// The times its clock was set to after it was opened, in nanoseconds since 1970.
    #[must_use]
    pub fn clocks(&self) -> Vec<u64> {
        lock(&self.state.clocks).clone()
    }

    /// What it was told to run, oldest first: a command's words, a shell line or source text.
    #[must_use]
    pub fn executed(&self) -> Vec<String> {
        lock(&self.state.executed).clone()
    }

    /// How many executions are under way.
    #[must_use]
    pub fn running(&self) -> usize {
        lock(&self.state.running).len()
    }

    /// The content of one of its files; relative paths start at the user's home.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.files().content(path.as_bytes()).ok().map(|content| content.to_vec())
    }

    /// Serves a port: every connection to it arrives here, until the receiver is dropped.
    #[must_use]
    pub fn listen(&self, port: u16) -> mpsc::UnboundedReceiver<RawStream> {
        let (sender, connections) = mpsc::unbounded_channel();
        lock(&self.state.ports).insert(port, sender);
        connections
    }

    /// Who serves a port.
    pub(crate) fn listener(&self, port: u32) -> Option<mpsc::UnboundedSender<RawStream>> {
        let port = u16::try_from(port).ok()?;
        lock(&self.state.ports).get(&port).filter(|listener| !listener.is_closed()).cloned()
    }

    /// Refuses the next operation with this code, whatever it is.
    pub fn refuse_next(&self, code: wire::ErrorCode) {
        lock(&self.state.refusals).push_back(code);
    }

    /// Breaks off its conversation with the host, as an agent that crashed does.
    pub fn crash(&self) {
        self.state.crash.notify_one();
    }

    pub(crate) async fn crashed(&self) {
        self.state.crash.notified().await;
    }

    pub(crate) fn refusal(&self) -> Option<wire::ErrorCode> {
        lock(&self.state.refusals).pop_front()
    }

    pub(crate) fn manner(&self) -> Manner {
        self.state.manner
    }

    pub(crate) fn is_open(&self) -> bool {
        *lock(&self.state.open)
    }

    pub(crate) fn open(&self, request: wire::RestoreRequest) {
        lock(&self.state.restores).push(request);
        *lock(&self.state.open) = true;
    }

    pub(crate) fn set_clock(&self, unix_nanos: u64) {
        lock(&self.state.clocks).push(unix_nanos);
    }

    pub(crate) fn close(&self) {
        *lock(&self.state.open) = false;
    }

    /// Ends its programs and closes its gate.
    pub(crate) fn stop(&self) {
        for running in lock(&self.state.running).values() {
            let _ = running.send(TERMINATE);
        }
        self.close();
    }

    /// What the last restore said.
    pub(crate) fn sandbox(&self) -> wire::RestoreRequest {
        lock(&self.state.restores).last().cloned().unwrap_or_default()
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        lock(&self.state.files)
    }

    /// Puts an execution on record; signals to it arrive at the receiver until the guard is dropped.
    pub(crate) fn begin(&self, what: String) -> (RunningProgram, mpsc::UnboundedReceiver<u32>) {
        lock(&self.state.executed).push(what);
        let id = self.state.next_execution.fetch_add(1, Ordering::Relaxed);
        let (sender, signals) = mpsc::unbounded_channel();
        lock(&self.state.running).insert(id, sender);
        (RunningProgram { guest: self.clone(), id }, signals)
    }

    /// Signals an execution; whether there is such a one.
    pub(crate) fn signal(&self, execution: u64, signal: u32) -> bool {
        lock(&self.state.running).get(&execution).is_some_and(|running| running.send(signal).is_ok())
    }

    pub(crate) fn is_running(&self, execution: u64) -> bool {
        lock(&self.state.running).contains_key(&execution)
    }
}

/// An execution under way.
pub(crate) struct RunningProgram {
    guest: Guest,
    pub(crate) id: u64,
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        lock(&self.guest.state.running).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
