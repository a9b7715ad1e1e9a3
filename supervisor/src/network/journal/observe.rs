//! Who is told of a sandbox's connections as they end.

use super::ConnectionView;

/// Who is told of every connection that has ended, was denied or has failed.
pub trait Observe: Send + Sync + std::fmt::Debug {
    /// Takes notice. Must not wait.
    fn connection(&self, view: &ConnectionView);
    /// Takes notice of a request of plain HTTP that was let through. Must not wait.
    fn request(&self);
    /// Takes notice of a request to the gateway, whose connection is told besides. Must not wait.
    fn gateway(&self, request: &GatewayRequest<'_>);
}

/// What became of a request to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayRequest<'a> {
    /// Of which service the sandbox has grants.
    pub service: &'a str,
    /// `passed`, `failed`, or why it was denied.
    pub outcome: &'a str,
    /// What it cost.
    pub cost: u64,
}
