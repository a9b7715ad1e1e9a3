//! Looks at sandboxes: many, and the past of one.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::caller::{Caller, Scope};
use super::create::check_metadata;
use super::error::ServiceError;
use super::id::SandboxId;
use super::registry::{Found, Service};
use super::sandbox::{SandboxState, SandboxView};
use super::timeline::Timeline;
use crate::agent::AgentClient;
use crate::config::TemplateName;

/// Entries of a page.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// Which sandboxes.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only those whose metadata has all of these pairs.
    pub metadata: BTreeMap<String, String>,
    /// Also those that have ended.
    pub include_ended: bool,
    /// Only those in this state.
    pub state: Option<SandboxState>,
    /// Only those made from this template.
    pub template: Option<TemplateName>,
    /// Only those created then or later.
    pub created_from: Option<SystemTime>,
    /// The newest one first, instead of the oldest.
    pub newest_first: bool,
    /// Most entries; 0 means 100.
    pub page_size: usize,
    /// Where the page before ended; empty for the first.
    pub page_token: String,
}

/// Some sandboxes, in the order that was asked for.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The sandboxes.
    pub sandboxes: Vec<SandboxView>,
    /// Where the next page begins; empty when this is the last.
    pub next: String,
}

/// What orders sandboxes: when they were created, and their name.
type Position = (Duration, SandboxId);

impl Service {
    /// Some sandboxes.
    ///
    /// # Errors
    /// When the query makes no sense.
    pub async fn list(&self, caller: &Caller, query: &ListQuery) -> Result<Page, ServiceError> {
        check_metadata(&query.metadata)?;
        let after = match query.page_token.as_str() {
            "" => None,
            token => Some(parse(token).ok_or_else(|| ServiceError::invalid("page_token is none of ours"))?),
        };
        let size = if query.page_size == 0 { PAGE } else { query.page_size.min(MAX_PAGE) };
        let mut found: Vec<(Position, Found)> = self
            .all(caller, query.include_ended)
            .into_iter()
            .filter(|found| query.wants(found))
            .map(|found| (found.position(), found))
            .filter(|(position, _)| after.as_ref().is_none_or(|after| query.order(after, position).is_lt()))
            .collect();
        found.sort_by(|(a, _), (b, _)| query.order(a, b));
        let more = found.len() > size;
        found.truncate(size);
        let next = found.last().filter(|_| more).map(|(position, _)| token(position)).unwrap_or_default();
        let mut sandboxes = Vec::with_capacity(found.len());
        for (_, found) in found {
            sandboxes.push(found.view().await);
        }
        Ok(Page { sandboxes, next })
    }

    /// The agent in a sandbox, for programs in this process that measure the way to it. What is done with it is not
    /// recorded.
    ///
    /// # Errors
    /// When the caller is not who runs the host, or has no such sandbox.
    pub fn agent(&self, caller: &Caller, sandbox: &str) -> Result<AgentClient, ServiceError> {
        caller.require(Scope::Admin)?;
        Ok(self.alive(caller, sandbox)?.agent())
    }

    /// What happened in one sandbox.
    ///
    /// # Errors
    /// When the caller has none of this name.
    pub fn timeline(&self, caller: &Caller, sandbox: &str) -> Result<Timeline, ServiceError> {
        Ok(match self.find(caller, sandbox, true)? {
            Found::Alive(sandbox) => sandbox.lock().timeline.clone(),
            Found::Gone(gone) => gone.timeline.clone(),
        })
    }
}

impl ListQuery {
    fn wants(&self, found: &Found) -> bool {
        matches(found.metadata(), &self.metadata)
            && self.state.is_none_or(|state| found.state() == state)
            && self.template.as_ref().is_none_or(|template| found.template() == template)
            && self.created_from.is_none_or(|from| found.position().0 >= since_epoch(from))
    }

    fn order(&self, a: &Position, b: &Position) -> Ordering {
        if self.newest_first { b.cmp(a) } else { a.cmp(b) }
    }
}

/// Whether metadata has all the pairs of a filter.
pub(super) fn matches(metadata: &BTreeMap<String, String>, filter: &BTreeMap<String, String>) -> bool {
    filter.iter().all(|(key, value)| metadata.get(key) == Some(value))
}

impl Found {
    fn metadata(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Alive(sandbox) => &sandbox.facts.metadata,
            Self::Gone(gone) => &gone.view.metadata,
        }
    }

    fn state(&self) -> SandboxState {
        match self {
            Self::Alive(sandbox) => sandbox.lock().state,
            Self::Gone(gone) => gone.view.state,
        }
    }

    fn template(&self) -> &TemplateName {
        match self {
            Self::Alive(sandbox) => &sandbox.facts.template,
            Self::Gone(gone) => &gone.view.template,
        }
    }

    fn position(&self) -> Position {
        let (at, id) = match self {
            Self::Alive(sandbox) => (sandbox.facts.created_at, &sandbox.facts.id),
            Self::Gone(gone) => (gone.view.created_at, &gone.view.id),
        };
        (since_epoch(at), id.clone())
    }
}

fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn token((at, id): &Position) -> String {
    format!("{}.{id}", at.as_nanos())
}

fn parse(token: &str) -> Option<Position> {
    let (nanos, id) = token.split_once('.')?;
    Some((Duration::from_nanos(nanos.parse().ok()?), id.parse().ok()?))
}
