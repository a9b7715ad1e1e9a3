//! What opening the gate needs, found and opened before the snapshot.
//!
//! Between a quiesce and the restores of its snapshot nothing runs, so what was found then is still true. Every
//! clone would otherwise walk the same paths first, and walk them slowly.

use std::fs::File;
use std::io;

use crate::agent::Agent;
use crate::cgroup::SandboxLimits;
use crate::restore::identity::Identity;
use crate::restore::{entropy, interpreters};

/// It.
#[derive(Debug)]
pub struct Ahead {
    /// The kernel's random generator.
    pub random: File,
    /// Whether interpreters wait for fresh randomness.
    pub interpreters: bool,
    /// Host name and machine-id.
    pub identity: Identity,
    /// The sandbox's limits.
    pub limits: SandboxLimits,
}

impl Ahead {
    /// Looks now.
    ///
    /// # Errors
    /// When something the gate cannot do without is not there.
    pub fn look(agent: &Agent) -> io::Result<Self> {
        Ok(Self {
            random: entropy::open()?,
            interpreters: interpreters::anyone()?,
            identity: Identity::find(),
            limits: agent.cgroups.sandbox_limits()?,
        })
    }
}
