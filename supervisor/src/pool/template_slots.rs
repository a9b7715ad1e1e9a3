//! What is there of one template: the machines themselves, and what was counted. Only the actor touches it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::config::PooledTemplate;
use super::lease::{Ready, StartKind};
use super::status::TemplateStatus;
use super::template_counts::Kind;

/// What is there of one template, beside the numbers in the policy.
#[derive(Debug)]
pub(super) struct TemplateSlots {
    pub(super) template: Arc<PooledTemplate>,
    /// Oldest first.
    pub(super) parked: VecDeque<Ready>,
    pub(super) prespawned: VecDeque<Ready>,
    /// Refills that failed since one succeeded.
    pub(super) failed_in_a_row: u32,
    pub(super) backing_off: bool,
    claims: [u64; 3],
    pub(super) start_failures: u64,
}

impl TemplateSlots {
    pub(super) fn new(template: Arc<PooledTemplate>) -> Self {
        Self {
            template,
            parked: VecDeque::new(),
            prespawned: VecDeque::new(),
            failed_in_a_row: 0,
            backing_off: false,
            claims: [0; 3],
            start_failures: 0,
        }
    }

    pub(super) fn of(&mut self, kind: Kind) -> &mut VecDeque<Ready> {
        match kind {
            Kind::Parked => &mut self.parked,
            Kind::Prespawned => &mut self.prespawned,
        }
    }

    pub(super) fn claimed(&mut self, kind: StartKind) {
        self.claims[kind as usize] += 1;
    }

    /// What is published, with the policy's numbers: parked, prespawned, and the ones being made.
    pub(super) fn status(&self, (parked, prespawned, filling): (u32, u32, u32)) -> TemplateStatus {
        let claims = |kind: StartKind| self.claims[kind as usize];
        TemplateStatus {
            name: self.template.name().clone(),
            parked,
            prespawned,
            filling,
            claims_parked: claims(StartKind::Parked),
            claims_prespawned: claims(StartKind::Prespawned),
            claims_restored: claims(StartKind::Restored),
            start_failures: self.start_failures,
        }
    }
}
