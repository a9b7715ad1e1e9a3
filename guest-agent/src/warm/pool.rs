//! What waits, and what should.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_protocol::wire::Language;

use crate::warm::forker::Forker;
use crate::warm::parked::Parked;

/// Starts of a forker in one guest. One that keeps ending is given up.
const MAX_FORKERS: u32 = 3;

/// The interpreters that wait.
#[derive(Debug, Default)]
pub struct Warm {
    state: Mutex<State>,
    /// Held while interpreters are started, one after the other.
    pub filling: tokio::sync::Mutex<()>,
    /// Held while a copy of Python is made.
    pub copying: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    modules: Option<Vec<String>>,
    forker: Option<Arc<Forker>>,
    forkers: u32,
    python: Option<Parked>,
    node: VecDeque<Parked>,
    nodes: usize,
}

/// What is missing.
#[derive(Debug)]
pub enum Missing {
    /// The process Python copies are forked from, and what it imports.
    Forker(Vec<String>),
    /// A parked copy.
    Python(Arc<Forker>),
    /// A parked Node.
    Node,
}

impl Warm {
    /// Says what should wait from now on. What waited before is let go.
    pub fn want(&self, modules: Option<Vec<String>>, nodes: usize) {
        *self.lock() = State { modules, nodes, ..State::default() };
    }

    /// The next thing to start, if any.
    pub fn missing(&self) -> Option<Missing> {
        let mut state = self.lock();
        if state.python.as_mut().is_some_and(|parked| !parked.waits()) {
            state.python = None;
        }
        state.node.retain_mut(Parked::waits);
        match (&state.modules, &state.forker) {
            (Some(modules), None) if state.forkers < MAX_FORKERS => {
                return Some(Missing::Forker(modules.clone()));
            }
            (Some(_), Some(forker)) if state.python.is_none() => {
                return Some(Missing::Python(forker.clone()));
            }
            _ => {}
        }
        (state.node.len() < state.nodes).then_some(Missing::Node)
    }

    /// A forker was started.
    pub fn add_forker(&self, forker: Forker) {
        let mut state = self.lock();
        state.forkers += 1;
        state.forker = Some(Arc::new(forker));
    }

    /// The forker does not answer any more.
    pub fn lose_forker(&self) {
        self.lock().forker = None;
    }

    /// One more waits.
    pub fn add(&self, language: Language, parked: Parked) {
        let mut state = self.lock();
        match language {
            Language::Node => state.node.push_back(parked),
            _ => state.python = Some(parked),
        }
    }

    /// One that waits, and is nobody else's from now on.
    pub fn take(&self, language: Language) -> Option<Parked> {
        let mut state = self.lock();
        let mut next = || match language {
            Language::Python => state.python.take(),
            Language::Node => state.node.pop_front(),
            _ => None,
        };
        loop {
            let mut parked = next()?;
            if parked.waits() {
                return Some(parked);
            }
        }
    }

    /// Where a copy can be had when none waits.
    pub fn forker(&self) -> Option<Arc<Forker>> {
        self.lock().forker.clone()
    }

    /// Completes when nothing is being started.
    pub async fn settled(&self) {
        drop(self.filling.lock().await);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
