//! One context: its name and language, and the program that has its state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::driver::Driver;
use super::language::CodeLanguage;
use crate::agent::GuestUser;
use crate::service::error::ServiceError;
use crate::service::id::ExecutionId;

/// Runs in one context at a time, those that wait included.
const MAX_RUNS: usize = 16;

/// A context as its tenant sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextView {
    /// Its name.
    pub id: String,
    /// What it speaks.
    pub language: CodeLanguage,
    /// Where its code begins.
    pub cwd: String,
}

/// One context.
#[derive(Debug)]
pub(super) struct Context {
    pub view: ContextView,
    /// It is what runs of its language use that name no context.
    pub default: bool,
    /// Locked by the run under way; whoever waits for it gets it in the order of asking.
    pub slot: Arc<tokio::sync::Mutex<Slot>>,
    pub places: Arc<Semaphore>,
    /// Nobody can name it any more.
    removed: AtomicBool,
    /// Its program is root's, since nobody else may enter its directory.
    root: AtomicBool,
    /// The program that runs, for those who must reach it while somebody else has the slot.
    program: Mutex<Option<ExecutionId>>,
}

/// A context's program.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub driver: Option<Driver>,
    /// It was ended while nobody could be told, and with it what was defined.
    pub lost: bool,
}

impl Context {
    /// A context without a program.
    pub(super) fn new(language: CodeLanguage, cwd: String, default: bool) -> Result<Self, ServiceError> {
        let view = ContextView { id: name()?, language, cwd };
        Ok(Self {
            view,
            default,
            slot: Arc::default(),
            places: Arc::new(Semaphore::new(MAX_RUNS)),
            removed: AtomicBool::new(false),
            root: AtomicBool::new(false),
            program: Mutex::new(None),
        })
    }

    /// The program that runs.
    pub(super) fn program(&self) -> Option<ExecutionId> {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_program(&self, program: Option<ExecutionId>) {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = program;
    }

    /// Takes the program away: who has the slot finds that it is no longer the context's.
    pub(super) fn take_program(&self) -> Option<ExecutionId> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whose its program is.
    pub(super) fn user(&self) -> GuestUser {
        if self.root.load(Ordering::Acquire) { GuestUser::Root } else { GuestUser::User }
    }

    /// From here on its programs are root's.
    pub(super) fn set_root(&self) {
        self.root.store(true, Ordering::Release);
    }

    /// From here on no run begins in it.
    pub(super) fn set_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Refuses one that was removed.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        if self.removed.load(Ordering::Acquire) { Err(ServiceError::UnknownContext) } else { Ok(()) }
    }

    /// A place for one more run.
    pub(super) fn place(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ServiceError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| ServiceError::InterpreterFull { what: "runs wait in this context", most: MAX_RUNS })
    }
}

/// A new name, in the form that clients of E2B are used to.
fn name() -> Result<String, ServiceError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(ServiceError::Random)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
}
