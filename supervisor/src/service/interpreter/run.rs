//! Runs code in a context and tells what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::context::{Context, ContextView, Slot};
use super::driver::{self, Driver, Told};
use super::events::{CodeError, CodeEvent};
use super::language::CodeLanguage;
use crate::service::call::Call;
use crate::service::caller::{Caller, Scope};
use crate::service::diagnosis::code::{diagnose_code, diagnose_context};
use crate::service::error::ServiceError;
use crate::service::program::environment;
use crate::service::registry::Service;
use crate::service::turns::TurnsLeft;

/// Longest code.
const MAX_CODE: usize = 1 << 20;
/// How often a run whose caller has gone is interrupted, and how long it has each time, before its program is ended.
const INTERRUPTS: usize = 4;
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(5);
/// How long its program has to begin with it.
const BEGUN_WITHIN: Duration = Duration::from_secs(60);

/// The context of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextChoice {
    /// That of this name.
    Named(String),
    /// The one that every sandbox has for this language.
    Default(CodeLanguage),
}

/// A run under way. Dropping it interrupts the code.
#[derive(Debug)]
pub struct CodeRun {
    context: ContextView,
    held: Option<Held>,
    call: Option<Call>,
    turns: Option<TurnsLeft>,
    printed: u64,
    /// The end of what it printed to standard error.
    errors: Tail,
    /// What went wrong was counted: once for every run, however many errors its program tells.
    failed: bool,
}

/// The end of a text.
#[derive(Debug, Default)]
struct Tail(String);

/// What a run has of its context, until the context is ready for the next.
#[derive(Debug)]
struct Held {
    service: Service,
    caller: Caller,
    sandbox: String,
    context: Arc<Context>,
    slot: OwnedMutexGuard<Slot>,
    /// Before the slot is another's, this one no longer counts.
    _place: OwnedSemaphorePermit,
}

impl Service {
    /// Runs code in a context, after the runs that were asked for before. Dropping the future leaves nothing, unless
    /// the code was being sent: then its context begins anew.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn run_code(
        &self,
        caller: &Caller,
        sandbox: &str,
        choice: &ContextChoice,
        code: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<CodeRun, ServiceError> {
        caller.require(Scope::Exec)?;
        let alive = self.alive(caller, sandbox)?;
        ServiceError::bound("the size of the code", code.len() as u64, MAX_CODE as u64)?;
        environment(env)?;
        let context = {
            let contexts = &mut alive.lock().contexts;
            match choice {
                ContextChoice::Named(id) => contexts.named(id)?,
                ContextChoice::Default(language) => contexts.default(*language)?,
            }
        };
        if !context.view.language.takes(code, env) {
            return Err(ServiceError::invalid(
                "bash takes no zero bytes, and only names of its own as variables",
            ));
        }
        let place = context.place()?;
        let call = Call::begin_turn(self, Arc::clone(&alive), &caller.origin, "run_code", code)?;
        let slot = Arc::clone(&context.slot);
        let slot = call.wait(async move { Ok(slot.lock_owned().await) }).await;
        let begun = async {
            let mut held = Held {
                service: self.clone(),
                caller: caller.clone(),
                sandbox: sandbox.to_owned(),
                context,
                slot: slot?,
                _place: place,
            };
            held.begin(code, env).await?;
            Ok(held)
        };
        match begun.await {
            Ok(held) => {
                let context = held.context.view.clone();
                let turns = call.turn().cloned();
                Ok(CodeRun {
                    context,
                    held: Some(held),
                    call: Some(call),
                    turns,
                    printed: 0,
                    errors: Tail::default(),
                    failed: false,
                })
            }
            Err(error) => {
                let failed: Result<CodeRun, _> = Err(error);
                call.not_started(&failed);
                failed
            }
        }
    }
}

impl Tail {
    /// Bytes that are kept, and as many again before they are moved.
    const KEPT: usize = 2 << 10;

    fn push(&mut self, text: &str) {
        let from = text.ceil_char_boundary(text.len().saturating_sub(Self::KEPT));
        self.0.push_str(&text[from..]);
        if self.0.len() > 2 * Self::KEPT {
            let from = self.0.ceil_char_boundary(self.0.len() - Self::KEPT);
            self.0.drain(..from);
        }
    }

    fn text(&self) -> String {
        self.0.clone()
    }
}

impl Held {
    fn at(&self) -> (&Service, &Caller, &str) {
        (&self.service, &self.caller, &self.sandbox)
    }

    /// Has the context's program run this code; starts one where there is none.
    async fn begin(&mut self, code: &str, env: &BTreeMap<String, String>) -> Result<(), ServiceError> {
        self.context.check()?;
        let program = self.context.program();
        if self.slot.driver.as_ref().is_some_and(|driver| Some(driver.id()) != program) {
            // The context was restarted.
            self.slot.driver = None;
        }
        if self.slot.driver.as_ref().is_some_and(|driver| !driver.is_idle()) {
            self.end().await;
        }
        if let Some(driver) = &mut self.slot.driver {
            let at = (&self.service, &self.caller, &self.sandbox[..]);
            match driver.ask(at, &self.context, code, env).await {
                // It has ended since the last run.
                Err(ServiceError::ExecutionEnded | ServiceError::UnknownExecution) => {
                    self.slot.driver = None;
                    self.slot.lost = true;
                }
                asked => return asked,
            }
        }
        let (service, caller, sandbox) = (self.service.clone(), self.caller.clone(), self.sandbox.clone());
        let driver = Driver::start((&service, &caller, &sandbox), &self.context).await?;
        self.slot.driver = Some(driver);
        if let Err(error) = self.context.check() {
            self.end().await;
            return Err(error);
        }
        let Slot { driver: Some(driver), lost: false } = &mut *self.slot else { return Ok(()) };
        match driver.ask((&service, &caller, &sandbox), &self.context, code, env).await {
            // One that has ended already says why when it is read.
            Err(ServiceError::ExecutionEnded) => Ok(()),
            asked => asked,
        }
    }

    /// Ends the context's program.
    async fn end(&mut self) {
        let program = self.slot.driver.take().map(|driver| driver.id());
        let _ = driver::kill(self.at(), program).await;
    }

    /// Brings the context to where it can run code again: interrupts what runs, or ends its program.
    async fn recover(mut self) {
        let Some(driver) = &mut self.slot.driver else { return };
        if driver.is_idle() {
            return;
        }
        // A program that is still starting would be ended by an interrupt.
        let _ = timeout(BEGUN_WITHIN, driver.begun()).await;
        for _ in 0..INTERRUPTS {
            let _ = driver::interrupt(self.at(), &self.context).await;
            let Some(driver) = &mut self.slot.driver else { return };
            let ending = async {
                loop {
                    match driver.next().await {
                        Ok(Told::Event(_)) => {}
                        Ok(Told::Over) => return true,
                        Ok(Told::Died(_)) | Err(_) => return false,
                    }
                }
            };
            match timeout(INTERRUPTED_WITHIN, ending).await {
                Ok(true) => return,
                Ok(false) => break,
                Err(_) => {}
            }
        }
        self.end().await;
        self.slot.lost = true;
    }
}

impl CodeRun {
    /// The context it is in.
    #[must_use]
    pub fn context(&self) -> &ContextView {
        &self.context
    }

    /// How many turns its sandbox has left, where they are bounded.
    #[must_use]
    pub fn turns(&self) -> Option<&TurnsLeft> {
        self.turns.as_ref()
    }

    /// What it tells next; `None` after the last. Can be abandoned and called again without losing anything.
    ///
    /// # Errors
    /// See [`ServiceError`]; nothing follows an error.
    pub async fn next(&mut self) -> Result<Option<CodeEvent>, ServiceError> {
        let Some(held) = &mut self.held else { return Ok(None) };
        if std::mem::take(&mut held.slot.lost) {
            let value =
                "the context's process was ended; what was defined is gone, and the next run begins anew";
            return self.died(CodeError {
                name: "ContextEnded".to_owned(),
                value: value.to_owned(),
                ..CodeError::default()
            });
        }
        let Some(driver) = &mut held.slot.driver else { return Ok(None) };
        match driver.next().await {
            Ok(Told::Event(mut event)) => {
                if let (CodeEvent::Stdout(text) | CodeEvent::Stderr(text), Some(call)) =
                    (&event, &mut self.call)
                {
                    self.printed = self.printed.saturating_add(text.len() as u64);
                    let printed = self.printed;
                    call.note(|entry| entry.bytes_out = printed);
                }
                match &mut event {
                    CodeEvent::Stderr(text) => self.errors.push(text),
                    CodeEvent::Error(error) => self.diagnose(error),
                    _ => {}
                }
                Ok(Some(event))
            }
            Ok(Told::Over) => {
                self.finish(&Ok(()));
                Ok(None)
            }
            Ok(Told::Died(finished)) => {
                held.slot.driver = None;
                let error = driver::died(finished.outcome);
                let found = |packages: &[String]| diagnose_context(&finished, packages);
                let diagnosis = self.call.as_ref().and_then(|call| call.diagnosed(&mut self.failed, found));
                self.died(CodeError { diagnosis, ..error })
            }
            Err(error) => {
                held.slot.driver = None;
                let failed = Err(error);
                self.finish(&failed);
                failed.map(|()| None)
            }
        }
    }

    /// Says what went wrong, as of an execution.
    fn diagnose(&mut self, error: &mut CodeError) {
        let driver = self.held.as_ref().and_then(|held| held.slot.driver.as_ref());
        let (Some(driver), Some(call)) = (driver, &self.call) else { return };
        let network = driver.network(call.sandbox());
        let (language, printed) = (self.context.language, self.errors.text());
        let found = |packages: &[String]| diagnose_code(language, error, &printed, &network, packages);
        error.diagnosis = call.diagnosed(&mut self.failed, found);
    }

    fn died(&mut self, error: CodeError) -> Result<Option<CodeEvent>, ServiceError> {
        self.finish(&Ok(()));
        Ok(Some(CodeEvent::Error(error)))
    }

    /// Remembers what the code did on the network, while its context is not yet another's.
    fn note_network(&mut self) {
        let driver = self.held.as_ref().and_then(|held| held.slot.driver.as_ref());
        if let (Some(driver), Some(call)) = (driver, &mut self.call) {
            let network = driver.network(call.sandbox());
            call.note(|entry| entry.note_network(&network));
        }
    }

    fn finish(&mut self, result: &Result<(), ServiceError>) {
        self.note_network();
        // The context is the next one's before the timeline tells of the end.
        self.held = None;
        if let Some(call) = self.call.take() {
            call.done(result);
        }
    }
}

impl Drop for CodeRun {
    fn drop(&mut self) {
        self.note_network();
        if let Some(held) = self.held.take() {
            tokio::spawn(held.recover());
        }
    }
}
