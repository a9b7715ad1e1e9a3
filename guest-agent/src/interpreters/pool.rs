//! What waits, and what should.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rekindle_protocol::wire::Language;

use crate::interpreters::forker::Forker;
use crate::interpreters::source_scan;
use crate::interpreters::standby::Standby;

/// Starts of a forker in one guest. One that keeps ending is given up.
const MAX_FORKERS: u32 = 3;

/// The interpreters that wait.
#[derive(Debug, Default)]
pub struct Interpreters {
    state: Mutex<State>,
    /// Held while interpreters are started, one after the other.
    pub filling: Arc<tokio::sync::Mutex<()>>,
    /// Held while a copy of Python is made.
    pub copying: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Each has imported more than the one before.
    pythons: Vec<Python>,
    node: VecDeque<Standby>,
    nodes: usize,
}

/// A Python that copies are forked from.
#[derive(Debug, Default)]
struct Python {
    modules: Vec<String>,
    forker: Option<Arc<Forker>>,
    forkers: u32,
    standby: Option<Standby>,
}

/// What an execution can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A copy of one of the Pythons, by its number.
    Python(usize),
    /// A Node.
    Node,
}

/// What is missing.
#[derive(Debug)]
pub enum Missing {
    /// The process that copies of a Python are forked from, and what it imports.
    Forker(usize, Vec<String>),
    /// A standby copy.
    Copy(usize, Arc<Forker>),
    /// A standby Node.
    Node,
}

impl Interpreters {
    /// Says what should wait from now on: for every list a Python that has imported it, and so many Nodes. What
    /// waited before is let go.
    pub fn want(&self, pythons: Vec<Vec<String>>, nodes: usize) {
        let pythons = pythons.into_iter().map(|modules| Python { modules, ..Python::default() }).collect();
        *self.lock() = State { pythons, nodes, ..State::default() };
    }

    /// The next thing to start, if any.
    pub fn missing(&self) -> Option<Missing> {
        let mut state = self.lock();
        for (number, python) in state.pythons.iter_mut().enumerate() {
            if python.standby.as_mut().is_some_and(|standby| !standby.waits()) {
                python.standby = None;
            }
            match &python.forker {
                None if python.forkers < MAX_FORKERS => {
                    return Some(Missing::Forker(number, python.modules.clone()));
                }
                Some(forker) if python.standby.is_none() => {
                    return Some(Missing::Copy(number, forker.clone()));
                }
                _ => {}
            }
        }
        state.node.retain_mut(Standby::waits);
        (state.node.len() < state.nodes).then_some(Missing::Node)
    }

    /// The smallest one that has imported what a program may need, or the largest.
    pub fn kind(&self, language: Language, source: &[u8]) -> Option<Kind> {
        if language == Language::Node {
            return Some(Kind::Node);
        }
        let state = self.lock();
        let last = state.pythons.len().checked_sub(1)?;
        let enough = state.pythons[..last]
            .iter()
            .position(|python| source_scan::imports_only(source, &python.modules));
        Some(Kind::Python(enough.unwrap_or(last)))
    }

    /// A forker was started.
    pub fn add_forker(&self, number: usize, forker: Forker) {
        if let Some(python) = self.lock().pythons.get_mut(number) {
            python.forkers += 1;
            python.forker = Some(Arc::new(forker));
        }
    }

    /// A forker does not answer any more.
    pub fn lose_forker(&self, number: usize) {
        if let Some(python) = self.lock().pythons.get_mut(number) {
            python.forker = None;
        }
    }

    /// One more waits.
    pub fn add(&self, kind: Kind, standby: Standby) {
        let mut state = self.lock();
        match kind {
            Kind::Node => state.node.push_back(standby),
            Kind::Python(number) => {
                if let Some(python) = state.pythons.get_mut(number) {
                    python.standby = Some(standby);
                }
            }
        }
    }

    /// One that waits, and is nobody else's from now on.
    pub fn take(&self, kind: Kind) -> Option<Standby> {
        let mut state = self.lock();
        let mut next = || match kind {
            Kind::Python(number) => state.pythons.get_mut(number)?.standby.take(),
            Kind::Node => state.node.pop_front(),
        };
        loop {
            let mut standby = next()?;
            if standby.waits() {
                return Some(standby);
            }
        }
    }

    /// Where a copy of a Python can be had when none waits.
    pub fn forker(&self, number: usize) -> Option<Arc<Forker>> {
        self.lock().pythons.get(number)?.forker.clone()
    }

    /// Completes when nothing is being started.
    pub async fn settled(&self) {
        drop(self.filling.lock().await);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
