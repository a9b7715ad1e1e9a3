//! Faults to order: what goes wrong at which operation.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::{EngineError, Operation};
use crate::host::process::ExitReport;

/// What happens instead of, or before, an operation.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It fails with this message.
    Fail(String),
    /// It succeeds, but only after this long.
    Delay(Duration),
    /// It never returns.
    Hang,
    /// The monitor dies in the middle of it.
    Die,
    /// It is done, and fails with this message all the same: the answer was lost. Of pauses and resumes alone.
    Late(String),
}

/// The faults still to come, and what was called so far.
#[derive(Debug, Default)]
pub(super) struct Script {
    faults: Mutex<HashMap<Operation, VecDeque<Fault>>>,
    log: Mutex<Vec<Operation>>,
}

impl Script {
    pub(super) fn inject(&self, operation: Operation, fault: Fault) {
        lock(&self.faults).entry(operation).or_default().push_back(fault);
    }

    pub(super) fn forget(&self) -> usize {
        lock(&self.faults).drain().map(|(_, faults)| faults.len()).sum()
    }

    pub(super) fn log(&self) -> Vec<Operation> {
        lock(&self.log).clone()
    }

    /// Plays the next fault of `operation`; `died` is told when the monitor is to die, `done` when it is to be done in
    /// spite of the failure.
    pub(super) async fn play(
        &self,
        operation: Operation,
        died: impl FnOnce(),
        done: impl FnOnce(),
    ) -> Result<(), EngineError> {
        lock(&self.log).push(operation);
        let fault = lock(&self.faults).get_mut(&operation).and_then(VecDeque::pop_front);
        match fault {
            None => Ok(()),
            Some(Fault::Fail(message)) => Err(EngineError::Control { operation, source: message.into() }),
            Some(Fault::Late(message)) => {
                done();
                Err(EngineError::Control { operation, source: message.into() })
            }
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Die) => {
                died();
                let report = ExitReport::Signaled { signal: 9 };
                Err(EngineError::Exited { operation, report, output: String::new() })
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
