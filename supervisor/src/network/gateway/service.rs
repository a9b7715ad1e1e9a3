//! Services that were checked: pure up to the point where secrets and certificates are read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::credential::{Credential, CredentialError, CredentialPlan};
use super::operation::Operation;
use super::spec::ServiceSpec;
use super::upstream::{Certificates, Upstream, UpstreamPlan};

/// Most bytes of a service's name: it is a label of a host name.
const MAX_NAME: usize = 63;
/// Most operations of a service.
const MAX_OPERATIONS: usize = 256;
/// Longest time a service may be waited for.
const MAX_TIMEOUT: u64 = 3600;

/// What is wrong with a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidService {
    /// Its own name.
    #[error("a service's name has 1 to 63 of a-z, 0-9 and `-`, and begins and ends with none of the latter")]
    Name,
    /// Where it is.
    #[error(
        "its upstream is not https:// and the name or address of a host, with a port if need be, and nothing after it"
    )]
    Upstream,
    /// Nothing but loopback is safe without TLS.
    #[error("its upstream is http://, which is for a loopback address such as http://127.0.0.1:8000 alone")]
    Plain,
    /// Certificates that nobody would look at.
    #[error("it has a `ca`, and its upstream is not https://")]
    UnusedCa,
    /// A path that depends on where the supervisor was started.
    #[error("a file's path does not begin with /")]
    Relative,
    /// The credential's header.
    #[error("its credential's header cannot carry one")]
    Header,
    /// The credential's value.
    #[error("its credential's value does not have `{{}}`, where the secret goes, exactly once")]
    Value,
    /// Where the secret is.
    #[error("its credential needs a `file` or an `env`, and not both")]
    Source,
    /// Nothing could be asked of it.
    #[error("it has no operations, so nothing could be asked of it")]
    NoOperation,
    /// Too many.
    #[error("it has more than {MAX_OPERATIONS} operations")]
    TooMany,
    /// An operation's name.
    #[error("the operation {name:?} needs a name of 1 to 63 of a-z, 0-9, `-` and `_`")]
    OperationName {
        /// As it is written.
        name: String,
    },
    /// An operation's method.
    #[error(
        "the method of the operation {operation} is none of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS"
    )]
    Method {
        /// Whose.
        operation: String,
    },
    /// An operation's path.
    #[error(
        "the path of the operation {operation} is no template such as /v1/items/{{id}}: no escapes, no query, no empty \
         segments, one {{name}} a segment"
    )]
    Path {
        /// Whose.
        operation: String,
    },
    /// Two operations that are the same.
    #[error("the operations {one} and {other} have one name, or one method and path")]
    Twice {
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// A number that makes no sense.
    #[error("its {what} is 0 or too large")]
    Amount {
        /// Which.
        what: &'static str,
    },
}

/// A service that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the service {name:?} cannot be used")]
pub struct InvalidGateway {
    /// Which.
    pub name: String,
    /// Why.
    #[source]
    pub source: InvalidService,
}

/// Why the gateway cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was written makes no sense.
    #[error(transparent)]
    Invalid(#[from] InvalidGateway),
    /// A secret.
    #[error("the credential of the gateway's service {service} cannot be used")]
    Credential {
        /// Whose.
        service: String,
        /// Why.
        #[source]
        source: CredentialError,
    },
    /// Certificates that are to be trusted.
    #[error(
        "the certificates that the gateway is to trust cannot be used: {reason}\nhint: see `ca` of the service {service}"
    )]
    Trust {
        /// Whose.
        service: String,
        /// Why.
        reason: String,
    },
    /// There can be no thread that looks at the files.
    #[error("the gateway's credentials cannot be kept current")]
    Thread(#[source] std::io::Error),
}

/// A service that was checked, and of which nothing was read yet.
#[derive(Debug, Clone)]
pub(super) struct ServicePlan {
    upstream: UpstreamPlan,
    ca: Option<PathBuf>,
    credential: Option<CredentialPlan>,
    operations: Vec<Operation>,
    per_minute: Option<u32>,
    timeout: Duration,
    spec: ServiceSpec,
}

/// Checks what an operator wrote. Looks at no file.
pub(super) fn check(
    services: &BTreeMap<String, ServiceSpec>,
) -> Result<BTreeMap<String, ServicePlan>, InvalidGateway> {
    let plan = |(name, spec): (&String, &ServiceSpec)| match ServicePlan::new(name, spec) {
        Ok(plan) => Ok((name.clone(), plan)),
        Err(source) => Err(InvalidGateway { name: name.clone(), source }),
    };
    services.iter().map(plan).collect()
}

impl ServicePlan {
    fn new(name: &str, spec: &ServiceSpec) -> Result<Self, InvalidService> {
        let inside = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !(1..=MAX_NAME).contains(&name.len())
            || !name.bytes().all(inside)
            || name.starts_with('-')
            || name.ends_with('-')
        {
            return Err(InvalidService::Name);
        }
        let upstream = UpstreamPlan::parse(&spec.upstream)?;
        match &spec.ca {
            Some(_) if !upstream.is_secure() => return Err(InvalidService::UnusedCa),
            Some(ca) if !ca.is_absolute() => return Err(InvalidService::Relative),
            _ => {}
        }
        let operations: Vec<Operation> =
            spec.operations.iter().map(Operation::new).collect::<Result<_, _>>()?;
        if operations.is_empty() {
            return Err(InvalidService::NoOperation);
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(InvalidService::TooMany);
        }
        for (at, one) in operations.iter().enumerate() {
            let same = |other: &&Operation| one.name == other.name || one.is_same(other);
            if let Some(other) = operations[at + 1..].iter().find(same) {
                return Err(InvalidService::Twice { one: one.name.clone(), other: other.name.clone() });
            }
        }
        if spec.requests_per_minute == Some(0) {
            return Err(InvalidService::Amount { what: "requests_per_minute" });
        }
        if !(1..=MAX_TIMEOUT).contains(&spec.timeout_s) {
            return Err(InvalidService::Amount { what: "timeout_s" });
        }
        Ok(Self {
            upstream,
            ca: spec.ca.clone(),
            credential: spec.credential.as_ref().map(CredentialPlan::new).transpose()?,
            operations,
            per_minute: spec.requests_per_minute,
            timeout: Duration::from_secs(spec.timeout_s),
            spec: spec.clone(),
        })
    }

    /// Reads its secret and what it trusts.
    pub(super) fn open(self, name: &str) -> Result<Service, OpenError> {
        let Self { upstream, ca, credential, operations, per_minute, timeout, spec } = self;
        let service = || name.to_owned();
        let upstream =
            upstream.open(ca.as_deref()).map_err(|reason| OpenError::Trust { service: service(), reason })?;
        let credential = credential
            .map(|plan| Credential::open(&plan).map(Arc::new))
            .transpose()
            .map_err(|source| OpenError::Credential { service: service(), source })?;
        Ok(Service { name: service(), upstream, credential, operations, per_minute, timeout, spec })
    }

    /// Takes its secret, and what it trusts, from who has read them.
    pub(super) fn given(
        self,
        name: &str,
        secret: Option<&str>,
        ca: Option<Certificates>,
        native: impl FnOnce() -> Certificates,
    ) -> Result<Service, OpenError> {
        let Self { upstream, ca: _, credential, operations, per_minute, timeout, spec } = self;
        let service = || name.to_owned();
        let upstream = upstream
            .trusting(ca, native)
            .map_err(|reason| OpenError::Trust { service: service(), reason })?;
        let credential = credential
            .map(|plan| Credential::given(&plan, secret.unwrap_or_default()).map(Arc::new))
            .transpose()
            .map_err(|source| OpenError::Credential { service: service(), source })?;
        Ok(Service { name: service(), upstream, credential, operations, per_minute, timeout, spec })
    }
}

/// A service in use.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) upstream: Upstream,
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) operations: Vec<Operation>,
    pub(super) per_minute: Option<u32>,
    pub(super) timeout: Duration,
    /// As the operator wrote it.
    pub(super) spec: ServiceSpec,
}

#[cfg(test)]
mod tests {
    //! What an operator may write.

    use super::*;

    fn checked(text: &str) -> Result<(), InvalidService> {
        let specs: BTreeMap<String, ServiceSpec> = toml::from_str(text).unwrap();
        check(&specs).map(|_| ()).map_err(|error| error.source)
    }

    const OPERATION: &str = "operations = [{ name = \"x\", method = \"GET\", path = \"/x\" }]\n";

    #[test]
    fn a_service_is_where_it_says_and_nowhere_else() {
        for (upstream, fine) in [
            ("https://api.example.com", true),
            ("https://api.example.com:8443", true),
            ("https://api.example.com/", true),
            ("https://10.1.2.3:8443", true),
            ("https://[fd00::1]:8443", true),
            ("http://127.0.0.1:8000", true),
            ("http://[::1]:8000", true),
            ("http://api.example.com", false),
            ("http://10.1.2.3", false),
            ("https://api.example.com/v1", false),
            ("https://api.example.com/?x", false),
            ("https://user:canary@api.example.com", false),
            ("https://localhost", false),
            ("https://", false),
            ("ftp://api.example.com", false),
            ("api.example.com", false),
        ] {
            let checked = checked(&format!("[a]\nupstream = \"{upstream}\"\n{OPERATION}"));
            assert_eq!(checked.is_ok(), fine, "{upstream}: {checked:?}");
            assert!(!format!("{checked:?}").contains("canary"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let service = |more: &str| checked(&format!("[a]\nupstream = \"https://api.example.com\"\n{more}"));
        assert_eq!(service(OPERATION), Ok(()));
        assert_eq!(service("operations = []"), Err(InvalidService::NoOperation));
        let twice = |name: &str, path: &str| {
            service(&format!(
                "operations = [{{ name = \"x\", method = \"GET\", path = \"/x/{{a}}\" }},\
                 {{ name = \"{name}\", method = \"GET\", path = \"{path}\" }}]"
            ))
        };
        assert!(matches!(twice("x", "/y"), Err(InvalidService::Twice { .. })));
        assert!(matches!(twice("y", "/x/{b}"), Err(InvalidService::Twice { .. })));
        assert_eq!(twice("y", "/x/a"), Ok(()));
        let amount = |what| Err(InvalidService::Amount { what });
        assert_eq!(service(&format!("requests_per_minute = 0\n{OPERATION}")), amount("requests_per_minute"));
        assert_eq!(service(&format!("timeout_s = 0\n{OPERATION}")), amount("timeout_s"));
        assert_eq!(service(&format!("ca = \"ca.pem\"\n{OPERATION}")), Err(InvalidService::Relative));
        for name in ["-a", "a-", "A", "a.b", "a_b"] {
            let text = format!("[\"{name}\"]\nupstream = \"https://api.example.com\"\n{OPERATION}");
            assert_eq!(checked(&text), Err(InvalidService::Name), "{name}");
        }
        let plain = format!("[a]\nupstream = \"http://127.0.0.1\"\nca = \"/ca.pem\"\n{OPERATION}");
        assert_eq!(checked(&plain), Err(InvalidService::UnusedCa));
    }
}
