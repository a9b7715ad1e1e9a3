//! Tells what changes in a directory, until the host resets the stream.
//!
//! ```text
//! kernel ──▶ thread with the user's rights ([`Tree`]) ──▶ a few messages ──▶ stream
//!                     ▲ eventfd: a sync, or the end
//! host: WatchSync ────┘
//! ```
//!
//! A host that does not read holds back the thread and then the kernel, which drops changes when it has too many; that
//! ends the watch with an error, so that nobody takes a part for the whole.

mod tree;

use std::os::fd::AsFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_EVENTS;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::response::Reply;
use rekindle_protocol::wire::{Done, ErrorCode, FileEvent, FileEvents, WatchRequest, WatchSync};
use tokio::io::split;
use tokio::sync::mpsc;

use self::tree::Tree;
use crate::agent::Agent;
use crate::exec::Account;
use crate::failure::Failure;
use crate::files::location::Location;
use crate::files::worker;
use crate::session::{reply, response};

/// Messages that may wait for the host.
const BACKLOG: usize = 4;
/// Syncs that may wait for the thread. A host sends one and waits for its answer.
const SYNCS: usize = 16;

/// Carries out a watch request on its stream.
pub async fn watch(agent: &Arc<Agent>, request: WatchRequest, stream: Stream) {
    let begun = worker::admit_watch(agent, &request.user).and_then(|ticket| {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_flags(flags)
            .map_err(|error| Failure::internal("a watch has no descriptor", &error.into()))?;
        Ok((ticket, Arc::new(bell)))
    });
    let (ticket, bell) = match begun {
        Ok(begun) => begun,
        Err(failure) => return reply(stream, failure.into_response()).await,
    };
    let (told, mut outgoing) = mpsc::channel(BACKLOG);
    let (ask, asked) = mpsc::channel(SYNCS);
    let thread = Watching { bell: Arc::clone(&bell), told, asked };
    let watching = tokio::spawn(worker::run(ticket, move |account, _| thread.run(account, &request)));
    // The thread may wait in the kernel when the host goes.
    let _end = Ring(Arc::clone(&bell));
    let (mut from_host, mut to_host) = split(stream);
    let listen = async {
        while let Ok(Some(WatchSync { number })) = frame::read::<WatchSync>(&mut from_host).await {
            if ask.send(number).await.is_err() {
                // It has failed; what it has to say follows.
                return std::future::pending().await;
            }
            let _ = bell.write(1);
        }
    };
    let speak = async {
        while let Some(reply) = outgoing.recv().await {
            if frame::write(&mut to_host, &response(reply)).await.is_err() {
                return false;
            }
        }
        true
    };
    let ended = tokio::select! {
        () = listen => false,
        ended = speak => ended,
    };
    if !ended {
        return;
    }
    let failure = match watching.await {
        Ok(Err(failure)) => failure,
        Ok(Ok(())) => return,
        Err(error) => Failure::new(ErrorCode::Internal, error.to_string()),
    };
    reply(from_host.unsplit(to_host), failure.into_response()).await;
}

/// Wakes the thread when the operation is over.
struct Ring(Arc<EventFd>);

impl Drop for Ring {
    fn drop(&mut self) {
        let _ = self.0.write(1);
    }
}

/// The thread's side.
struct Watching {
    bell: Arc<EventFd>,
    told: mpsc::Sender<Reply>,
    asked: mpsc::Receiver<u64>,
}

impl Watching {
    /// Watches until the host has gone, or until it fails.
    fn run(mut self, account: &Account, request: &WatchRequest) -> Result<(), Failure> {
        let at = Location::parse(&request.path, account)?;
        let mut tree = Tree::new(&at, request.recursive)?;
        if self.told.blocking_send(Reply::Done(Done {})).is_err() {
            return Ok(());
        }
        loop {
            self.wait(&tree).map_err(|error| Failure::internal("the watch cannot wait", &error.into()))?;
            // Asked before it is looked: what happened before the question is in the answer.
            let asked = self.asked();
            if self.told.is_closed() {
                return Ok(());
            }
            while let Some(events) = tree.changes()? {
                for part in events.chunks(MAX_EVENTS) {
                    if self.tell(part.to_vec(), 0).is_none() {
                        return Ok(());
                    }
                }
            }
            if let Some(synced) = asked
                && self.tell(Vec::new(), synced).is_none()
            {
                return Ok(());
            }
        }
    }

    /// Sends a message; nothing when the host has gone.
    fn tell(&self, events: Vec<FileEvent>, synced: u64) -> Option<()> {
        self.told.blocking_send(Reply::Events(FileEvents { events, synced })).ok()
    }

    /// Waits for a change or for the bell.
    fn wait(&self, tree: &Tree) -> nix::Result<()> {
        let mut both =
            [PollFd::new(tree.as_fd(), PollFlags::POLLIN), PollFd::new(self.bell.as_fd(), PollFlags::POLLIN)];
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        match self.bell.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The last question that waits, which answers those before it too.
    fn asked(&mut self) -> Option<u64> {
        let mut last = None;
        while let Ok(number) = self.asked.try_recv() {
            last = Some(number);
        }
        last
    }
}
