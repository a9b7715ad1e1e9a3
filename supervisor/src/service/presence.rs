//! Which sandboxes there are, for a front that must know where a request leads before it knows who makes it. Nothing
//! here is told to a caller but whether a name it already has leads anywhere.

use super::id::SandboxId;
use super::registry::Service;

impl Service {
    /// Whether a sandbox of this name takes calls at this moment.
    #[must_use]
    pub fn is_running(&self, sandbox: &str) -> bool {
        let found = sandbox.parse().ok().and_then(|id: SandboxId| self.one(&id));
        found.is_some_and(|sandbox| sandbox.check_running(&sandbox.lock()).is_ok())
    }

    /// Whose a sandbox is that has not ended.
    #[must_use]
    pub fn tenant_of(&self, sandbox: &str) -> Option<String> {
        let id: SandboxId = sandbox.parse().ok()?;
        self.one(&id).map(|sandbox| sandbox.facts.tenant.clone())
    }

    /// Every sandbox that has not ended, and whose it is.
    #[must_use]
    pub fn present(&self) -> Vec<(SandboxId, String)> {
        let name = |facts: &super::sandbox::SandboxFacts| (facts.id.clone(), facts.tenant.clone());
        self.everyone().iter().map(|sandbox| name(&sandbox.facts)).collect()
    }
}
