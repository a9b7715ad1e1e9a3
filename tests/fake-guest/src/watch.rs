//! Tells what changes in a directory: everything that is done to the files in memory is in their log.

use rekindle_protocol::frame;
use rekindle_protocol::limits::MAX_EVENTS;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::{self, response::Reply};
use tokio::io::split;

use crate::guest::Guest;
use crate::reply::{done, finish, send};

/// Tells until the host resets the stream.
pub(crate) async fn watch(guest: &Guest, request: &wire::WatchRequest, stream: Stream) {
    let begun = {
        let files = guest.files();
        files.directory(&request.path).map(|root| (root, files.log.subscribe()))
    };
    let (root, mut log) = match begun {
        Ok(begun) => begun,
        Err(refused) => return finish(stream, Err(refused)).await,
    };
    let mut told = log.borrow_and_update().len();
    let (mut from_host, mut to_host) = split(stream);
    if !send(&mut to_host, done()).await {
        return;
    }
    loop {
        let synced = tokio::select! {
            sync = frame::read::<wire::WatchSync>(&mut from_host) => match sync {
                Ok(Some(sync)) => sync.number,
                _ => return,
            },
            changed = log.changed() => match changed {
                Ok(()) => 0,
                Err(_) => return,
            },
        };
        let mut events: Vec<wire::FileEvent> = {
            let log = log.borrow_and_update();
            let new = log[told..].iter();
            told = log.len();
            let below = new.filter_map(|(path, kind)| Some((path.strip_prefix(&root[..])?, kind)));
            let wanted = below.filter(|(path, _)| request.recursive || !path.contains(&b'/'));
            wanted.map(|(path, kind)| wire::FileEvent { path: path.to_vec().into(), kind: *kind }).collect()
        };
        while events.len() > MAX_EVENTS {
            let rest = events.split_off(MAX_EVENTS);
            if !send(&mut to_host, Reply::Events(wire::FileEvents { events, synced: 0 })).await {
                return;
            }
            events = rest;
        }
        if (!events.is_empty() || synced > 0)
            && !send(&mut to_host, Reply::Events(wire::FileEvents { events, synced })).await
        {
            return;
        }
    }
}
