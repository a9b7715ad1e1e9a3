//! Policies: what an operator writes, checked once, and the rule for one connection. Pure.
//!
//! Of several rules that match, the one that says most about the name counts, whatever their order: an exact name
//! before a wildcard, a longer wildcard before a shorter one. Two rules of one pattern and port that differ in their
//! protocol are refused when the policy is made.

mod spec;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use self::spec::NAMES;
pub use self::spec::{Access, Budget, PolicySpec, RuleSpec};
use super::cassette::CassetteName;
use super::denial::{Denial, DenialReason};
use super::name::{HostName, InvalidName, NamePattern};
use super::presets;

/// Most rules of one policy, those of its presets included.
const MAX_RULES: usize = 1024;
/// Most bytes of a policy's name.
const MAX_NAME: usize = 63;

/// What a rule lets through, and how it is held to the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TLS whose server name is the name that was asked for. The rest is the client's and the server's own.
    Tls,
    /// Plain HTTP/1 in which every request names the host that was asked for.
    Http,
    /// Any bytes.
    Tcp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Tcp => "tcp",
        })
    }
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// A policy's own name.
    #[error("a policy's name has 1 to 63 of a-z, 0-9, `-` and `_`, and `none` is taken")]
    Name,
    /// There is no such preset.
    #[error("there is no preset {name:?}; there are {}", presets::names().collect::<Vec<_>>().join(", "))]
    Preset {
        /// What was asked for.
        name: String,
    },
    /// A rule's host.
    #[error("the host {host:?} is no name and no `*.name`")]
    Host {
        /// What was written.
        host: String,
        /// What is wrong with it.
        #[source]
        source: InvalidName,
    },
    /// A rule for `tcp` must say which ports.
    #[error("the rule for {host:?} has the protocol tcp and names no port")]
    NoPort {
        /// Whose.
        host: String,
    },
    /// No connection to such a port is made.
    #[error(
        "the rule for {host:?} names the port 0, where nobody listens, or 53, where the sandbox itself answers"
    )]
    NoSuchPort {
        /// Whose.
        host: String,
    },
    /// Two rules that cannot both apply.
    #[error("{host}:{port} is allowed as {one} and as {other}")]
    Conflict {
        /// The pattern.
        host: String,
        /// The port.
        port: u16,
        /// One protocol.
        one: Protocol,
        /// The other.
        other: Protocol,
    },
    /// Rules that would never be looked at.
    #[error("it has rules or records, but its mode is not allow")]
    Unused,
    /// What is not looked at cannot be recorded.
    #[error("the rule for {host:?} records, which only the protocols tls and http can")]
    RecordsTcp {
        /// Whose.
        host: String,
    },
    /// One connection is recorded once.
    #[error("{host}:{port} is recorded in two ways")]
    RecordedTwice {
        /// The pattern.
        host: String,
        /// The port.
        port: u16,
    },
    /// Answers come from one cassette.
    #[error("a policy names a cassette when its mode is replay, and only then")]
    Cassette,
    /// A policy that allows nothing is called `none`.
    #[error("its mode is allow, and it allows nothing")]
    Empty,
    /// A budget that lets nothing through.
    #[error("its budget of {what} is 0\nhint: leave it out for no bound; the policy none has no network")]
    Zero {
        /// Of what.
        what: &'static str,
    },
    /// Too much to look through for every connection.
    #[error("it has more than {MAX_RULES} rules")]
    TooMany,
}

/// One host pattern on one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which names; `None` for all of them, and for addresses.
    pub pattern: Option<NamePattern>,
    /// Which port.
    pub port: u16,
    /// How it is held to the name.
    pub protocol: Protocol,
    /// What is done with its requests, where they are read.
    pub tape: Option<Tape>,
}

/// What is done with the requests of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tape {
    /// They go to their server, and are recorded with its answers.
    Record(CassetteName),
    /// They are answered from a cassette.
    Replay(CassetteName),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Tape::Replay(cassette)) = &self.tape {
            return write!(f, "replay {cassette}");
        }
        match &self.pattern {
            Some(pattern) => write!(f, "{} {pattern}:{}", self.protocol, self.port)?,
            None => write!(f, "{} *:{}", self.protocol, self.port)?,
        }
        match &self.tape {
            Some(Tape::Record(cassette)) => write!(f, " record {cassette}"),
            _ => Ok(()),
        }
    }
}

/// Where a program wants to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A name it looked up.
    Name(HostName),
    /// An address it did not look up.
    Address(IpAddr),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A policy that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    name: String,
    rules: Rules,
    budget: Budget,
}

/// What a policy lets through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Rules {
    Nothing,
    Listed(Vec<Rule>),
    Everything,
    Replayed(CassetteName),
}

impl Policy {
    /// The policy of a sandbox that was given none.
    #[must_use]
    pub fn none() -> Self {
        Self { name: "none".to_owned(), rules: Rules::Nothing, budget: Budget::default() }
    }

    /// Checks what an operator wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &str, spec: &PolicySpec) -> Result<Self, InvalidPolicy> {
        let inside = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(inside) || name == "none" {
            return Err(InvalidPolicy::Name);
        }
        spec.budget.check()?;
        let has_rules = !spec.presets.is_empty() || !spec.allow.is_empty() || spec.record.is_some();
        let rules = match (spec.mode, &spec.cassette) {
            (Access::Allow, None) => Rules::Listed(rules(spec)?),
            (Access::None | Access::Full | Access::Replay, _) if has_rules => {
                return Err(InvalidPolicy::Unused);
            }
            (Access::None, None) => Rules::Nothing,
            (Access::Full, None) => Rules::Everything,
            (Access::Replay, Some(cassette)) => Rules::Replayed(cassette.clone()),
            (Access::Replay, None) | (_, Some(_)) => return Err(InvalidPolicy::Cassette),
        };
        Ok(Self { name: name.to_owned(), rules, budget: spec.budget_in_force() })
    }

    /// How much of it a sandbox may use.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What the operator calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cassette that everything is answered from, where nothing leaves the host.
    #[must_use]
    pub fn replayed(&self) -> Option<&CassetteName> {
        match &self.rules {
            Rules::Replayed(cassette) => Some(cassette),
            _ => None,
        }
    }

    /// The cassettes that it records.
    pub(super) fn recorded(&self) -> impl Iterator<Item = &CassetteName> {
        let rules = match &self.rules {
            Rules::Listed(rules) => rules.as_slice(),
            Rules::Nothing | Rules::Everything | Rules::Replayed(_) => &[],
        };
        rules.iter().filter_map(|rule| match &rule.tape {
            Some(Tape::Record(cassette)) => Some(cassette),
            _ => None,
        })
    }

    /// Whether some requests are read although they are inside TLS, or answered here: programs have to trust the
    /// sandbox's own authority then.
    #[must_use]
    pub fn intercepts(&self) -> bool {
        match &self.rules {
            Rules::Replayed(_) => true,
            Rules::Listed(rules) => rules.iter().any(|rule| rule.tape.is_some()),
            Rules::Nothing | Rules::Everything => false,
        }
    }

    /// Whether every public name and address is let through.
    #[must_use]
    pub fn allows_everything(&self) -> bool {
        matches!(self.rules, Rules::Everything)
    }

    /// The rules it is made of, in words; none where it lets everything or nothing through.
    #[must_use]
    pub fn listed(&self) -> Vec<String> {
        match &self.rules {
            Rules::Listed(rules) => rules.iter().map(ToString::to_string).collect(),
            Rules::Replayed(cassette) => vec![format!("replay {cassette}")],
            Rules::Nothing | Rules::Everything => Vec::new(),
        }
    }

    /// The rule by which a connection is let through, as far as its name and port tell.
    ///
    /// # Errors
    /// Why it is not.
    pub fn decide(&self, target: &Target, port: u16) -> Result<Rule, Denial> {
        let deny = |reason| Denial::new(reason, &self.name, target, port);
        let rules = match &self.rules {
            Rules::Nothing => return Err(deny(DenialReason::NetworkOff)),
            Rules::Everything if port == NAMES => return Err(deny(DenialReason::Port)),
            Rules::Everything => {
                return Ok(Rule { pattern: None, port, protocol: Protocol::Tcp, tape: None });
            }
            Rules::Replayed(cassette) => match target {
                // Whether it is TLS is for the client to say.
                Target::Name(_) => {
                    let tape = Some(Tape::Replay(cassette.clone()));
                    return Ok(Rule { pattern: None, port, protocol: Protocol::Tcp, tape });
                }
                Target::Address(_) => return Err(deny(DenialReason::AddressLiteral)),
            },
            Rules::Listed(rules) => rules,
        };
        let Target::Name(name) = target else { return Err(deny(DenialReason::AddressLiteral)) };
        let named = || {
            let specificity = |rule: &&Rule| {
                let pattern = rule.pattern.as_ref().filter(|pattern| pattern.matches(name))?;
                Some(pattern.specificity())
            };
            rules.iter().filter_map(move |rule| Some((specificity(&rule)?, rule)))
        };
        let rule = named().filter(|(_, rule)| rule.port == port).max_by_key(|(specificity, _)| *specificity);
        match (rule, named().next()) {
            (Some((_, rule)), _) => Ok(rule.clone()),
            (None, Some((_, other))) => Err(deny(DenialReason::Port).by(other)),
            (None, None) => Err(deny(DenialReason::NotAllowed)),
        }
    }
}

/// How a pattern's connections on a port are let through.
type Way = (Protocol, Option<CassetteName>);

fn rules(spec: &PolicySpec) -> Result<Vec<Rule>, InvalidPolicy> {
    let mut ways: BTreeMap<(NamePattern, u16), Way> = BTreeMap::new();
    let mut add = |pattern: &NamePattern, port: u16, protocol: Protocol, record: &Option<CassetteName>| {
        let record = record.as_ref().or(spec.record.as_ref()).filter(|_| protocol != Protocol::Tcp).cloned();
        let host = || pattern.to_string();
        match ways.insert((pattern.clone(), port), (protocol, record.clone())) {
            Some((one, _)) if one != protocol => {
                Err(InvalidPolicy::Conflict { host: host(), port, one, other: protocol })
            }
            Some((_, other)) if other != record => Err(InvalidPolicy::RecordedTwice { host: host(), port }),
            _ if ways.len() > MAX_RULES => Err(InvalidPolicy::TooMany),
            _ => Ok(()),
        }
    };
    for preset in &spec.presets {
        let hosts = presets::hosts(preset).ok_or_else(|| InvalidPolicy::Preset { name: preset.clone() })?;
        for host in hosts {
            let pattern = pattern(host.pattern)?;
            for port in default_ports(host.protocol) {
                add(&pattern, *port, host.protocol, &None)?;
            }
        }
    }
    for rule in &spec.allow {
        let host = || rule.host.clone();
        let pattern = pattern(&rule.host)?;
        let ports = if rule.ports.is_empty() { default_ports(rule.protocol) } else { &rule.ports };
        if ports.is_empty() {
            return Err(InvalidPolicy::NoPort { host: host() });
        }
        if rule.protocol == Protocol::Tcp && rule.record.is_some() {
            return Err(InvalidPolicy::RecordsTcp { host: host() });
        }
        for port in ports {
            if [0, NAMES].contains(port) {
                return Err(InvalidPolicy::NoSuchPort { host: host() });
            }
            add(&pattern, *port, rule.protocol, &rule.record)?;
        }
    }
    if ways.is_empty() {
        return Err(InvalidPolicy::Empty);
    }
    let rule = |((pattern, port), (protocol, record)): ((NamePattern, u16), Way)| Rule {
        pattern: Some(pattern),
        port,
        protocol,
        tape: record.map(Tape::Record),
    };
    Ok(ways.into_iter().map(rule).collect())
}

fn pattern(host: &str) -> Result<NamePattern, InvalidPolicy> {
    NamePattern::parse(host).map_err(|source| InvalidPolicy::Host { host: host.to_owned(), source })
}

fn default_ports(protocol: Protocol) -> &'static [u16] {
    match protocol {
        Protocol::Tls => &[443],
        Protocol::Http => &[80],
        Protocol::Tcp => &[],
    }
}

#[cfg(test)]
mod tests;
