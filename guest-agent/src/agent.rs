//! What all operations of one agent share: configuration, gate, cgroups, reaper, running executions.
//!
//! Made once in `main`; every session and operation holds it by reference count.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rekindle_protocol::limits::MAX_WATCHES;
use tokio::sync::{Semaphore, watch};

use crate::cgroup::Cgroups;
use crate::config::Config;
use crate::exec::{Account, Executions, KnownAccount, KnownNames, SpilledOutputs};
use crate::files;
use crate::interpreters::Interpreters;
use crate::network::Network;
use crate::open_files;
use crate::reaper::Reaper;
use crate::restore::Gate;
use crate::tuning::Tuning;

/// The agent.
pub struct Agent {
    /// What it was told at its start.
    pub config: Config,
    /// Whether it is the guest's init.
    pub init: bool,
    /// Closed until the supervisor has made this clone its own.
    pub gate: Gate,
    /// Where executions are placed and limited.
    pub cgroups: Cgroups,
    /// Collects every child that ends.
    pub reaper: Arc<Reaper>,
    /// What only saves time.
    pub tuning: Tuning,
    /// Interpreters that wait for an execution.
    pub interpreters: Interpreters,
    /// The sandbox's network.
    pub network: Arc<Network>,
    /// What runs now.
    pub executions: Executions,
    /// How many files programs may open.
    pub program_files: open_files::Programs,
    account: KnownAccount,
    /// What owners of files are called.
    pub names: KnownNames,
    /// Full output of earlier executions.
    pub spilled: SpilledOutputs,
    /// Bounds the file operations that run at once.
    pub file_slots: Arc<Semaphore>,
    /// Bounds the directories that are watched at once.
    pub watch_slots: Arc<Semaphore>,
    /// Operations under way, the ones that only ask left out.
    busy: AtomicUsize,
    /// Whether no operation has begun since the gate was opened.
    untouched: AtomicBool,
    /// Counts sessions: the newest one wins.
    sessions: watch::Sender<u64>,
}

impl Agent {
    /// Prepares everything operations need.
    ///
    /// # Errors
    /// When the state directory cannot be made or signals cannot be received.
    pub fn new(config: Config, init: bool, program_files: open_files::Programs) -> io::Result<Self> {
        let cgroups = Cgroups::open(config.cgroup.as_deref(), init);
        Ok(Self {
            init,
            program_files,
            gate: Gate::default(),
            cgroups,
            reaper: Arc::new(Reaper::new()?),
            tuning: Tuning::new(config.tuning.clone()),
            interpreters: Interpreters::default(),
            network: Arc::default(),
            executions: Executions::default(),
            account: KnownAccount::default(),
            names: KnownNames::default(),
            spilled: SpilledOutputs::open(&config.state)?,
            file_slots: Arc::new(Semaphore::new(files::MAX_PARALLEL)),
            watch_slots: Arc::new(Semaphore::new(MAX_WATCHES)),
            busy: AtomicUsize::new(0),
            untouched: AtomicBool::new(false),
            sessions: watch::Sender::new(0),
            config,
        })
    }

    /// The account operations run under by default.
    ///
    /// # Errors
    /// When the configured user does not exist.
    pub fn default_account(&self) -> io::Result<Account> {
        let mut account = self.account.get(&self.config.user)?;
        if let Some(home) = &self.config.home {
            account.home = home.clone();
        }
        Ok(account)
    }

    /// The account of this name; none means the default one.
    ///
    /// # Errors
    /// When there is no such user.
    pub fn account(&self, name: &str) -> io::Result<Account> {
        if self.is_default_user(name) { self.default_account() } else { Account::find(name) }
    }

    /// Whether this names the user operations run under by default.
    pub fn is_default_user(&self, name: &str) -> bool {
        name.is_empty() || name == self.config.user
    }

    /// Marks an operation as under way until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy { agent: self.clone(), first: self.untouched.swap(false, Ordering::SeqCst) }
    }

    /// Whether nothing has been done behind the gate yet.
    pub fn is_untouched(&self) -> bool {
        self.untouched.load(Ordering::SeqCst)
    }

    /// Says that the gate has been opened, and nothing has been done behind it.
    pub fn set_untouched(&self) {
        self.untouched.store(true, Ordering::SeqCst);
    }

    /// How many operations are under way.
    pub fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// Begins a session: earlier ones end. The receiver changes when a newer one begins.
    pub fn begin_session(&self) -> watch::Receiver<u64> {
        self.sessions.send_modify(|count| *count += 1);
        self.sessions.subscribe()
    }
}

/// An operation under way.
pub struct Busy {
    agent: Arc<Agent>,
    /// It is the first since the gate was opened: files are as they were when the guest was made.
    pub first: bool,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.agent.busy.fetch_sub(1, Ordering::SeqCst);
    }
}
