//! Who calls, and what it may do. Made by `grpc` from a token or from the socket; every verb begins by asking it.

use std::fmt;

use super::error::ServiceError;
use crate::network::Allowance;
use crate::telemetry::Origin;

/// Kinds of calls that are allowed one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Create, pause, resume, destroy sandboxes and change their timeouts.
    Create,
    /// Run programs.
    Exec,
    /// Move files.
    Files,
    /// See the host, and other tenants' sums.
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Exec => "exec",
            Self::Files => "files",
            Self::Admin => "admin",
        })
    }
}

/// Which scopes a caller has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes {
    /// [`Scope::Create`].
    pub create: bool,
    /// [`Scope::Exec`].
    pub exec: bool,
    /// [`Scope::Files`].
    pub files: bool,
    /// [`Scope::Admin`].
    pub admin: bool,
}

impl Scopes {
    /// Everything.
    pub const ALL: Self = Self { create: true, exec: true, files: true, admin: true };

    /// Whether a scope is among them.
    #[must_use]
    pub fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Create => self.create,
            Scope::Exec => self.exec,
            Scope::Files => self.files,
            Scope::Admin => self.admin,
        }
    }
}

/// What a tenant may have at once, and spend; `None` is unbounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Sandboxes.
    pub sandboxes: Option<u64>,
    /// Thousandths of processors over all its sandboxes.
    pub milli_cpus: Option<u64>,
    /// Memory over all its sandboxes, in MiB.
    pub memory_mib: Option<u64>,
    /// Scratch disks of all its sandboxes, in MiB.
    pub disk_mib: Option<u64>,
    /// What all its sandboxes may ask of the gateway.
    pub gateway: Allowance,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose sandboxes these are.
    pub tenant: String,
    /// Name of the token, for logs; `None` for who may use the socket.
    pub token: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// What it may have.
    pub quotas: Quotas,
    /// The network policies it may choose.
    pub networks: Choice,
    /// The services of the gateway it may use.
    pub gateway: Choice,
    /// It may be root in its sandboxes, where their template allows it.
    pub root: bool,
    /// What this call of its own is part of.
    pub origin: Origin,
}

/// Which of an operator's network policies, or services of the gateway, a caller may choose, besides having none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Each.
    All,
    /// These.
    Named(Vec<String>),
}

impl Choice {
    /// Whether a name is among them.
    #[must_use]
    pub fn allow(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|allowed| allowed == name),
        }
    }
}

impl Caller {
    /// The tenant of callers that come over the socket without a token.
    pub const LOCAL: &'static str = crate::config::tokens::LOCAL_TENANT;

    /// Someone who may use the supervisor's socket, and so may do everything.
    #[must_use]
    pub fn local() -> Self {
        Self {
            tenant: Self::LOCAL.into(),
            token: None,
            scopes: Scopes::ALL,
            quotas: Quotas::default(),
            networks: Choice::All,
            gateway: Choice::All,
            root: true,
            origin: Origin::default(),
        }
    }

    /// Whether it came over the socket without a token: who runs the host.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.token.is_none()
    }

    /// Refuses a caller that lacks a scope.
    ///
    /// # Errors
    /// When it does.
    pub fn require(&self, scope: Scope) -> Result<(), ServiceError> {
        if self.scopes.has(scope) { Ok(()) } else { Err(ServiceError::MissingScope { scope }) }
    }
}
