//! Who is told of a sandbox's connections as they end.

use super::{ConnectionView, Journal};

/// Who is told of every connection that has ended, was denied or has failed.
pub trait Observe: Send + Sync + std::fmt::Debug {
    /// Takes notice. Must not wait.
    fn connection(&self, view: &ConnectionView);
    /// Takes notice of a request of plain HTTP that was let through. Must not wait.
    fn request(&self);
    /// Takes notice of a request to the gateway, whose connection is told besides. Must not wait.
    fn gateway(&self, request: &GatewayRequest<'_>);
    /// Takes notice of the end of the sandbox. Connections that are still being ended may be told after it. Must not wait.
    fn ended(&self);
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

impl Journal {
    /// Tells that the sandbox has ended.
    pub fn ended(&self) {
        if let Some(observer) = &self.observer {
            observer.ended();
        }
    }
}
