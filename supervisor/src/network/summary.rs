//! What an execution, or a sandbox, has done on the network, in numbers. Made by `journal` and `gate`.

use super::denial::Denial;

/// What an execution, or a sandbox, has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSummary {
    /// Connections, whatever became of them.
    pub connections: u64,
    /// Those that were denied, at once or later.
    pub denied: u64,
    /// Those that nobody answered.
    pub failed: u64,
    /// Bytes of the clients'.
    pub up: u64,
    /// Bytes of the servers'.
    pub down: u64,
    /// What its requests to the gateway cost.
    pub gateway_cost: u64,
    /// The first denials.
    pub denials: Vec<Denial>,
}

impl NetworkSummary {
    /// What was added since an earlier one, its denials left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            connections: self.connections.saturating_sub(earlier.connections),
            denied: self.denied.saturating_sub(earlier.denied),
            failed: self.failed.saturating_sub(earlier.failed),
            up: self.up.saturating_sub(earlier.up),
            down: self.down.saturating_sub(earlier.down),
            gateway_cost: self.gateway_cost.saturating_sub(earlier.gateway_cost),
            denials: Vec::new(),
        }
    }
}
