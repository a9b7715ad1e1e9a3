//! Tells what changes in a directory of a sandbox: as it happens, or to a caller who asks now and then.
//!
//! A watch is no call that is under way: it keeps a sandbox neither from being idle nor from being paused.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::caller::Caller;
use super::error::ServiceError;
use super::files::LOOK;
use super::registry::Service;
use super::sandbox::Sandbox;
use crate::agent::{AgentClient, FileEvent, FileEventKind, FileInfo, GuestPath, UserPath, Watcher};
use crate::vm::Vm;

/// What to watch.
#[derive(Debug, Clone)]
pub struct WatchFiles {
    /// A directory.
    pub path: UserPath,
    /// Also everything below it.
    pub recursive: bool,
    /// Say what each file is that has changed and is still there.
    pub describe: bool,
}

/// One change.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// What happened.
    pub event: FileEvent,
    /// Its whole path, unless that is too long for one.
    pub at: Option<GuestPath>,
    /// The file as it was when this was told; the path is the event's.
    pub info: Option<FileInfo>,
}

/// A directory that is watched.
#[derive(Debug)]
struct Open {
    watch: WatchFiles,
    watcher: Watcher,
    /// Received and not told yet: whoever waits for it may give up while files are looked at.
    waiting: Vec<FileEvent>,
}

impl Open {
    /// What waits, with what callers want to know beside it. What is gone by now is not described.
    async fn changes(&mut self, agent: &AgentClient) -> Vec<FileChange> {
        let agent = agent.as_user(self.watch.path.user);
        let mut known: HashMap<GuestPath, Option<FileInfo>> = HashMap::new();
        let mut changes = Vec::with_capacity(self.waiting.len());
        for event in self.waiting.clone() {
            let at = event.path.within(&self.watch.path.path);
            let there = !matches!(event.kind, FileEventKind::Removed | FileEventKind::Renamed);
            let mut info = None;
            if let Some(at) = at.as_ref().filter(|_| self.watch.describe && there) {
                if !known.contains_key(&event.path) {
                    let found = agent.stat(at, false, LOOK).await.ok();
                    let found = found.map(|info| FileInfo { path: event.path.clone(), ..info });
                    known.insert(event.path.clone(), found);
                }
                info = known.get(&event.path).cloned().flatten();
            }
            changes.push(FileChange { event, at, info });
        }
        self.waiting.clear();
        changes
    }
}

/// A caller that is told at once. Dropped, the watch ends.
#[derive(Debug)]
pub struct FileWatch {
    sandbox: Arc<Sandbox>,
    /// The machine it is in: a pause without memory ends both.
    vm: Arc<Vm>,
    open: Open,
}

/// The watches of one sandbox whose callers ask. The agent bounds their number.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    last: u64,
    open: HashMap<String, Arc<Mutex<Open>>>,
}

impl Watchers {
    /// Ends all of them.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}

impl Service {
    /// Watches a directory from now on.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn watch_files(
        &self,
        caller: &Caller,
        sandbox: &str,
        watch: WatchFiles,
    ) -> Result<FileWatch, ServiceError> {
        let call = self.file_call(caller, sandbox, "watch_files", &watch.path)?;
        let sandbox = Arc::clone(call.sandbox());
        let vm = sandbox.vm();
        let agent = vm.agent().as_user(watch.path.user);
        let done = call.wait(agent.watch(&watch.path.path, watch.recursive, LOOK)).await;
        call.done(&done);
        Ok(FileWatch { sandbox, vm, open: Open { watch, watcher: done?, waiting: Vec::new() } })
    }

    /// Watches a directory from now on, for a caller who asks; its name is what to ask with.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn create_watcher(
        &self,
        caller: &Caller,
        sandbox: &str,
        watch: WatchFiles,
    ) -> Result<String, ServiceError> {
        let FileWatch { sandbox, open, .. } = self.watch_files(caller, sandbox, watch).await?;
        let mut inner = sandbox.lock();
        sandbox.check_alive(&inner)?;
        inner.watchers.last += 1;
        let name = format!("watcher-{}", inner.watchers.last);
        inner.watchers.open.insert(name.clone(), Arc::new(Mutex::new(open)));
        Ok(name)
    }

    /// What has happened since a watcher was made or last asked: everything that was before this call.
    ///
    /// # Errors
    /// See [`ServiceError`]. A watch that has failed is over.
    pub async fn watcher_changes(
        &self,
        caller: &Caller,
        sandbox: &str,
        watcher: &str,
    ) -> Result<Vec<FileChange>, ServiceError> {
        let open = self.watcher(caller, sandbox, watcher)?;
        let path = open.lock().await.watch.path.clone();
        let call = self.file_call(caller, sandbox, "watcher_changes", &path)?.unremembered();
        let agent = call.sandbox().agent();
        let taking = async {
            let mut open = open.lock().await;
            let events = open.watcher.take(LOOK).await?;
            open.waiting.extend(events);
            Ok(open.changes(&agent).await)
        };
        let done = call.wait(taking).await;
        if done.is_err() {
            call.sandbox().lock().watchers.open.remove(watcher);
        }
        call.done(&done);
        done
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn remove_watcher(&self, caller: &Caller, sandbox: &str, watcher: &str) -> Result<(), ServiceError> {
        self.watcher(caller, sandbox, watcher)?;
        self.alive(caller, sandbox)?.lock().watchers.open.remove(watcher);
        Ok(())
    }

    fn watcher(
        &self,
        caller: &Caller,
        sandbox: &str,
        watcher: &str,
    ) -> Result<Arc<Mutex<Open>>, ServiceError> {
        caller.require(super::caller::Scope::Files)?;
        let sandbox = self.alive(caller, sandbox)?;
        let inner = sandbox.lock();
        inner.watchers.open.get(watcher).cloned().ok_or(ServiceError::UnknownWatcher)
    }
}

impl FileWatch {
    /// The next changes. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`ServiceError`]; the watch is over then.
    pub async fn next(&mut self) -> Result<Vec<FileChange>, ServiceError> {
        let ended = self.sandbox.ended();
        let agent = self.vm.agent().clone();
        if self.open.waiting.is_empty() {
            let told = tokio::select! {
                told = self.open.watcher.next() => told,
                end = ended => return Err(ServiceError::Ended { end, during: true }),
            };
            match told {
                Ok(events) => self.open.waiting = events,
                Err(_) if !Arc::ptr_eq(&self.vm, &self.sandbox.vm()) => return Err(ServiceError::Paused),
                Err(error) => return Err(self.sandbox.failed(error).await),
            }
        }
        Ok(self.open.changes(&agent).await)
    }
}
