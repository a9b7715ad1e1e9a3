//! A connection that is not let through, said so that programs and people understand it. Pure.
//!
//! A TLS client gets the alert `access_denied`, which every library prints in words; a client that speaks HTTP gets 403
//! with JSON. A client that has said neither gets nothing but the end of its connection.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::policy::{Rule, Target};

/// A fatal TLS alert 80, `internal_error`: of the server's side, not of the client's.
pub const INTERNAL_ERROR: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x50];
/// A fatal TLS alert 49, `access_denied`. Clients of every version of TLS take it before a handshake.
pub const ACCESS_DENIED: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31];

/// Why a connection is not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialReason {
    /// The sandbox has no network.
    NetworkOff,
    /// No rule names the host.
    NotAllowed,
    /// A rule names the host, but not on this port.
    Port,
    /// An address was dialled that no name was looked up for.
    AddressLiteral,
    /// What was asked for is no name.
    InvalidName,
    /// The name leads to addresses that are never dialled, and to no other.
    PrivateAddress,
    /// The rule is for TLS, and the client does not speak it.
    NotTls,
    /// The client names no server, or more than one.
    NoServerName,
    /// The client names another server in its handshake.
    ServerNameMismatch,
    /// The client hides which server it means (Encrypted Client Hello).
    EncryptedHello,
    /// The rule is for HTTP, and the client does not speak HTTP/1 as it is written.
    NotHttp,
    /// A request names another host.
    HostMismatch,
    /// A request asks for a tunnel or another protocol.
    Tunnel,
    /// A request whose length can be read in two ways.
    AmbiguousLength,
    /// A head or a handshake that is too long.
    TooLarge,
    /// Too many connections at once.
    TooMany,
    /// Nothing is left of the sandbox's budget.
    BudgetSpent,
    /// It was let through, and the policy that is in force now does not.
    PolicyChanged,
    /// The gateway has no such service or operation for this sandbox.
    NotGranted,
    /// A request to the gateway is without the sandbox's token.
    GatewayToken,
    /// A request to the gateway has a longer body than its operation may have.
    BodyTooLarge,
    /// Too many requests to a service of the gateway in a minute.
    RateLimited,
    /// Nothing is left of what the sandbox may spend at the gateway.
    CostSpent,
    /// Answers come from a cassette, and it has none for this request.
    NotRecorded,
}

impl DenialReason {
    /// As it is written in logs and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NetworkOff => "network_off",
            Self::NotAllowed => "not_allowed",
            Self::Port => "port",
            Self::AddressLiteral => "address_literal",
            Self::InvalidName => "invalid_name",
            Self::PrivateAddress => "private_address",
            Self::NotTls => "not_tls",
            Self::NoServerName => "no_server_name",
            Self::ServerNameMismatch => "server_name_mismatch",
            Self::EncryptedHello => "encrypted_hello",
            Self::NotHttp => "not_http",
            Self::HostMismatch => "host_mismatch",
            Self::Tunnel => "tunnel",
            Self::AmbiguousLength => "ambiguous_length",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::BudgetSpent => "budget_spent",
            Self::PolicyChanged => "policy_changed",
            Self::NotGranted => "not_granted",
            Self::GatewayToken => "gateway_token",
            Self::BodyTooLarge => "body_too_large",
            Self::RateLimited => "rate_limited",
            Self::CostSpent => "cost_spent",
            Self::NotRecorded => "not_recorded",
        }
    }
}

impl fmt::Display for DenialReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A connection that is not let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// Why.
    pub reason: DenialReason,
    /// The policy's name.
    pub policy: String,
    /// The rule that was looked at, where one names the host.
    pub rule: Option<String>,
    /// What was asked for.
    pub host: String,
    /// On which port.
    pub port: u16,
}

/// The body of a 403, and a line of the guest's own record.
#[derive(Serialize)]
struct Body<'a> {
    error: &'static str,
    reason: DenialReason,
    message: String,
    host: &'a str,
    port: u16,
    policy: &'a str,
    rule: Option<&'a str>,
}

impl Denial {
    pub(super) fn new(reason: DenialReason, policy: &str, target: &Target, port: u16) -> Self {
        Self { reason, policy: policy.to_owned(), rule: None, host: target.to_string(), port }
    }

    /// Names the rule that was looked at.
    pub(super) fn by(mut self, rule: &Rule) -> Self {
        self.rule = Some(rule.to_string());
        self
    }

    /// One sentence for a person, lower case and without a full stop.
    #[must_use]
    pub fn message(&self) -> String {
        let Self { policy, host, port, .. } = self;
        let rule = self.rule.as_deref().unwrap_or("none");
        match self.reason {
            DenialReason::NetworkOff => format!("this sandbox has no network: {host}:{port} is denied"),
            DenialReason::NotAllowed => format!("network policy {policy} does not allow {host}:{port}"),
            DenialReason::Port => {
                format!("network policy {policy} allows {host}, but not port {port} (rule {rule})")
            }
            DenialReason::AddressLiteral => {
                format!("network policy {policy} allows names, and {host}:{port} is an address")
            }
            DenialReason::InvalidName => format!("{host} is not the name of a host"),
            DenialReason::PrivateAddress => {
                format!("{host} leads to a private or reserved address, which is never dialled")
            }
            DenialReason::NotTls => format!("{host}:{port} is allowed for TLS only (rule {rule})"),
            DenialReason::NoServerName => {
                format!("the TLS handshake with {host}:{port} does not name exactly one server (rule {rule})")
            }
            DenialReason::ServerNameMismatch => {
                format!("the TLS handshake with {host}:{port} names another server (rule {rule})")
            }
            DenialReason::EncryptedHello => {
                format!("the TLS handshake with {host}:{port} hides its server (rule {rule})")
            }
            DenialReason::NotHttp => format!("{host}:{port} is allowed for HTTP/1 only (rule {rule})"),
            DenialReason::HostMismatch => {
                format!("a request to {host}:{port} names another host (rule {rule})")
            }
            DenialReason::Tunnel => {
                format!("a request to {host}:{port} asks for a tunnel or an upgrade (rule {rule})")
            }
            DenialReason::AmbiguousLength => {
                format!("the length of a request to {host}:{port} can be read in two ways (rule {rule})")
            }
            DenialReason::TooLarge => format!("what was sent first to {host}:{port} is too long"),
            DenialReason::TooMany => format!("too many connections at once: {host}:{port} is denied"),
            DenialReason::BudgetSpent => {
                format!(
                    "the network budget of this sandbox is spent (policy {policy}): {host}:{port} is denied"
                )
            }
            DenialReason::PolicyChanged => {
                format!("network policy {policy} is in force now and does not allow {host}:{port}")
            }
            DenialReason::NotGranted => {
                format!(
                    "no operation of the gateway that is granted to this sandbox fits this request to {host} (granted: {rule})"
                )
            }
            DenialReason::GatewayToken => {
                format!("a request to {host} needs the token in $REKINDLE_GATEWAY_TOKEN as its API key")
            }
            DenialReason::BodyTooLarge => {
                format!("the body of a request to {host} is longer than {rule} may have")
            }
            DenialReason::RateLimited => format!("too many requests to {host} in a minute: {rule}"),
            DenialReason::CostSpent => {
                format!("the gateway budget does not cover one more {rule}")
            }
            DenialReason::NotRecorded => {
                format!(
                    "network policy {policy} answers from a cassette, which has no answer for this request to {host}:{port} ({rule})"
                )
            }
        }
    }

    /// What the client is sent, by what it has said so far: nothing when that is neither TLS nor HTTP.
    #[must_use]
    pub fn reply(&self, said: &[u8]) -> Vec<u8> {
        match Speech::of(said) {
            Speech::Tls => ACCESS_DENIED.to_vec(),
            Speech::Http => self.http_response(),
            Speech::Other => Vec::new(),
        }
    }

    /// One line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let body = Body {
            error: "network_denied",
            reason: self.reason,
            message: self.message(),
            host: &self.host,
            port: self.port,
            policy: &self.policy,
            rule: self.rule.as_deref(),
        };
        // Text and numbers are always JSON.
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// A whole response, after which the connection ends.
    #[must_use]
    pub fn http_response(&self) -> Vec<u8> {
        let body = self.json() + "\n";
        let denied = format!("x-rekindle-denied: {}\r\n", self.reason);
        last_response("403 Forbidden", &denied, &body)
    }
}

/// What a client is sent whose connection was allowed and that nobody answered, by what it has said so far.
#[must_use]
pub fn unreachable(message: &str, said: &[u8]) -> Vec<u8> {
    match Speech::of(said) {
        Speech::Tls => INTERNAL_ERROR.to_vec(),
        Speech::Http => {
            let body = serde_json::json!({ "error": "network_unreachable", "message": message });
            last_response("502 Bad Gateway", "", &format!("{body}\n"))
        }
        Speech::Other => Vec::new(),
    }
}

/// A whole response with JSON in it, after which the connection ends.
fn last_response(status: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
         {more}\r\n{body}",
        body.len(),
    )
    .into_bytes()
}

/// What a client's first bytes look like. A guess that decides about nothing but the shape of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    Tls,
    Http,
    Other,
}

impl Speech {
    fn of(said: &[u8]) -> Self {
        match said {
            [0x16, 0x03, ..] | [0x16] => Self::Tls,
            _ => {
                let method = said.split(|byte| *byte == b' ').next().unwrap_or_default();
                let is_method = (3..=16).contains(&method.len()) && method.iter().all(u8::is_ascii_uppercase);
                if is_method && said.len() > method.len() { Self::Http } else { Self::Other }
            }
        }
    }
}

#[cfg(test)]
mod tests;
