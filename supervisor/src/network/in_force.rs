//! Whether a connection would still be let through: policies are exchanged while connections are open.

use super::gate::Gate;
use super::policy::{Policy, Protocol, Rule, Target};

/// Completes when a policy is in force that would not let this connection through in the same way.
pub(super) async fn outlawed(gate: &Gate, rule: &Rule, target: &Target) {
    let mut policy = gate.policy_changes();
    // Looked at before it is waited for: it may have changed since the connection was decided about.
    while allows(&policy.borrow_and_update(), rule, target) {
        // The gate, which is held here, has the other end.
        let _ = policy.changed().await;
    }
}

/// Whether a policy lets a connection through as this rule has, recorded or answered in the same way.
pub(super) fn allows(policy: &Policy, rule: &Rule, target: &Target) -> bool {
    let now = policy.decide(target, rule.port);
    now.is_ok_and(|now| {
        now.tape == rule.tape && (now.protocol == rule.protocol || now.protocol == Protocol::Tcp)
    })
}
