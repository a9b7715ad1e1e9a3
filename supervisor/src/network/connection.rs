//! One connection of a guest's: what it asks for, the decision, and the bytes. Runs on a stream that the guest opened.
//!
//! ```text
//!   request ──► rule? ──► what the client says first fits? ──► look up, screen, dial ──► accepted ──► bytes
//!                 └─no──────────┴─no─────────────────────────────┴─no──► denied or failed, with a reply for the client
//! ```
//!
//! Nothing is looked up before the client has shown that it means the name it asked for, so no lookup tells anybody
//! anything that a rule does not allow.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use rekindle_protocol::frame;
use rekindle_protocol::limits::{MAX_EGRESS_REQUEST_BYTES, REQUEST_DEADLINE};
use rekindle_protocol::wire::{self, egress_request, egress_verdict::Verdict};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::client_hello::{ClientHelloReader, HelloError};
use super::denial::{Denial, DenialReason};
use super::dial::{DialError, Dialer};
use super::name::HostName;
use super::policy::{Policy, Protocol, Rule, Target};
use super::relay::{RelayError, Traffic, pump};
use super::requests::{RequestError, Requests};
use crate::host::untrusted::printable;

/// How long the first words of a client that is denied are waited for: they decide how it is told.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a client may take to say a whole ClientHello or the head of a request.
const FIRST_WORDS: Duration = Duration::from_secs(10);
/// How long a connection may go without a byte in either direction.
const IDLE: Duration = Duration::from_secs(300);
/// How long a server may take to finish what it was asked for before a later request was refused.
const FINISH: Duration = Duration::from_secs(30);
/// Bytes that are read at once while a client's first words are looked at.
const PIECE: usize = 4096;
/// Bytes that are shown of what is no name.
const MAX_SHOWN: usize = 256;

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was let through by this rule, and has ended.
    Served {
        /// The rule.
        rule: String,
        /// Bytes of the client's.
        up: u64,
        /// Bytes of the server's.
        down: u64,
        /// A later request of it was denied.
        denied: Option<Denial>,
    },
    /// It was denied.
    Denied(Denial),
    /// It was allowed, and there is nobody to connect to.
    Failed {
        /// What was asked for.
        host: String,
        /// On which port.
        port: u16,
        /// Why.
        why: String,
    },
    /// The guest did not say what it wants, or went away before it was told.
    Abandoned,
}

/// A connection that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The execution it belongs to, by the guest's word; 0 is nobody's.
    pub execution: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// Serves one stream to its end.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    policy: &Policy,
    dialer: &Dialer,
) -> Connection {
    let mut opening = (&mut stream).take(MAX_EGRESS_REQUEST_BYTES);
    let request = timeout(REQUEST_DEADLINE, frame::read::<wire::EgressRequest>(&mut opening)).await;
    let Ok(Ok(Some(request))) = request else {
        return Connection { execution: 0, outcome: Outcome::Abandoned };
    };
    let execution = request.execution;
    let outcome = Attempt { stream, said: Vec::new(), policy, dialer }.run(request).await;
    Connection { execution, outcome: outcome.unwrap_or(Outcome::Abandoned) }
}

/// The guest is gone.
struct Gone;

struct Attempt<'a, S> {
    stream: S,
    /// What the client has said so far.
    said: Vec<u8>,
    policy: &'a Policy,
    dialer: &'a Dialer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Attempt<'_, S> {
    async fn run(mut self, request: wire::EgressRequest) -> Result<Outcome, Gone> {
        let port = u16::try_from(request.port).unwrap_or(0);
        let target = match target(request.target) {
            Ok(target) => target,
            Err(shown) => {
                let policy = self.policy.name().to_owned();
                let reason = DenialReason::InvalidName;
                return self.deny(Denial { reason, policy, rule: None, host: shown, port }).await;
            }
        };
        let (rule, name) = match (self.policy.decide(&target, port), &target) {
            (Ok(rule), Target::Name(name)) => (rule, name),
            (Ok(rule), Target::Address(_)) => {
                let denial = self.denial(DenialReason::AddressLiteral, rule, &target);
                return self.deny(denial).await;
            }
            (Err(denial), _) => return self.deny(denial).await,
        };
        let mut requests = None;
        let checked = match rule.protocol {
            Protocol::Tls => self.check_hello(name).await?,
            Protocol::Http => self.check_first_request(name, port).await?.map(|first| requests = Some(first)),
            Protocol::Tcp => Ok(()),
        };
        if let Err(reason) = checked {
            let denial = self.denial(reason, rule, &target);
            return self.deny(denial).await;
        }
        match self.dialer.dial(name, port).await {
            Ok(server) => self.relay(server, rule, &target, requests).await,
            Err(DialError::Private) => {
                let denial = self.denial(DenialReason::PrivateAddress, rule, &target);
                self.deny(denial).await
            }
            Err(error) => self.fail(name, port, &error).await,
        }
    }

    fn denial(&self, reason: DenialReason, rule: &Rule, target: &Target) -> Denial {
        Denial::new(reason, self.policy.name(), target, rule.port).by(rule)
    }

    /// Reads more of what the client says; nothing when it says no more.
    async fn listen(&mut self, deadline: Instant, piece: &mut [u8; PIECE]) -> Result<Option<usize>, Gone> {
        match timeout_at(deadline, self.stream.read(piece)).await {
            Ok(Ok(0)) | Err(_) => Ok(None),
            Ok(Ok(read)) => Ok(Some(read)),
            Ok(Err(_)) => Err(Gone),
        }
    }

    /// The ClientHello names the server that was asked for.
    async fn check_hello(&mut self, name: &HostName) -> Result<Result<(), DenialReason>, Gone> {
        let deadline = Instant::now() + FIRST_WORDS;
        let mut reader = ClientHelloReader::default();
        let mut piece = [0; PIECE];
        let checked = loop {
            let Some(read) = self.listen(deadline, &mut piece).await? else {
                break Err(DenialReason::NotTls);
            };
            match reader.push(&piece[..read]) {
                Ok(None) => {}
                Ok(Some(hello)) if hello.server_name == *name => break Ok(()),
                Ok(Some(_)) => break Err(DenialReason::ServerNameMismatch),
                Err(HelloError::NotTls) => break Err(DenialReason::NotTls),
                Err(HelloError::TooLarge) => break Err(DenialReason::TooLarge),
                Err(HelloError::NoServerName) => break Err(DenialReason::NoServerName),
                Err(HelloError::Encrypted) => break Err(DenialReason::EncryptedHello),
            }
        };
        self.said = reader.into_bytes();
        Ok(checked)
    }

    /// The first request names the host that was asked for. The later ones are held to it as they come.
    async fn check_first_request(
        &mut self,
        name: &HostName,
        port: u16,
    ) -> Result<Result<Requests, DenialReason>, Gone> {
        let deadline = Instant::now() + FIRST_WORDS;
        let mut requests = Requests::new(name.clone(), port);
        let mut piece = [0; PIECE];
        let mut heard = Vec::new();
        while requests.passed() == 0 {
            let Some(read) = self.listen(deadline, &mut piece).await? else {
                self.said = heard;
                return Ok(Err(DenialReason::NotHttp));
            };
            if heard.len() < PIECE {
                heard.extend_from_slice(&piece[..read]);
            }
            let refused = requests.push(&piece[..read], &mut self.said);
            if let (Err(error), 0) = (refused, requests.passed()) {
                self.said = heard;
                return Ok(Err(error.into()));
            }
        }
        Ok(Ok(requests))
    }

    /// Tells the client in its own protocol, and the guest in words.
    async fn deny(mut self, denial: Denial) -> Result<Outcome, Gone> {
        if self.said.is_empty() {
            let mut piece = [0; PIECE];
            let deadline = Instant::now() + LAST_WORDS;
            if let Some(read) = self.listen(deadline, &mut piece).await? {
                self.said.extend_from_slice(&piece[..read]);
            }
        }
        let verdict = Verdict::Denied(wire::EgressDenied {
            reason: denial.reason.as_str().to_owned(),
            message: denial.message(),
            reply: Bytes::from(denial.reply(&self.said)),
        });
        self.tell(verdict).await?;
        let _ = self.stream.shutdown().await;
        Ok(Outcome::Denied(denial))
    }

    async fn fail(mut self, name: &HostName, port: u16, error: &DialError) -> Result<Outcome, Gone> {
        let why = error.to_string();
        let verdict = Verdict::Failed(wire::EgressFailed { message: format!("{name}:{port}: {why}") });
        self.tell(verdict).await?;
        let _ = self.stream.shutdown().await;
        Ok(Outcome::Failed { host: name.to_string(), port, why })
    }

    async fn tell(&mut self, verdict: Verdict) -> Result<(), Gone> {
        let verdict = wire::EgressVerdict { verdict: Some(verdict) };
        match timeout(FIRST_WORDS, frame::write(&mut self.stream, &verdict)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }

    async fn relay(
        mut self,
        mut server: TcpStream,
        rule: &Rule,
        target: &Target,
        mut requests: Option<Requests>,
    ) -> Result<Outcome, Gone> {
        self.tell(Verdict::Accepted(wire::EgressAccepted {})).await?;
        let traffic = Traffic::default();
        // It is little, and a server that does not take even that is not waited for.
        match timeout(FIRST_WORDS, server.write_all(&self.said)).await {
            Ok(Ok(())) => traffic.up.add(self.said.len()),
            _ => return Err(Gone),
        }
        self.said = Vec::new();
        // One that came together with the first and is refused.
        let refused = match requests.as_ref().and_then(Requests::refused) {
            Some(error) => Some(error),
            None => both_ways(&mut self.stream, &mut server, &traffic, requests.as_mut()).await,
        };
        let denied = match refused {
            None => None,
            Some(error) => {
                let denial = self.denial(error.into(), rule, target);
                self.refuse_later(&mut server, &traffic, &denial).await;
                Some(denial)
            }
        };
        let (up, down) = (traffic.up.bytes(), traffic.down.bytes());
        Ok(Outcome::Served { rule: rule.to_string(), up, down, denied })
    }

    /// Refuses a later request of a connection: what was asked for before is answered first, then comes the refusal,
    /// as one more response.
    async fn refuse_later(&mut self, server: &mut TcpStream, traffic: &Traffic, denial: &Denial) {
        let _ = server.shutdown().await;
        let rest = pump(server, &mut self.stream, &traffic.down, traffic, FINISH, None);
        let _ = timeout(FINISH, rest).await;
        let _ = timeout(FIRST_WORDS, self.stream.write_all(&denial.http_response())).await;
        let _ = timeout(FIRST_WORDS, self.stream.shutdown()).await;
    }
}

/// Moves bytes until both directions have ended, or one has failed; the request that was refused, if one was.
async fn both_ways(
    guest: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut TcpStream,
    traffic: &Traffic,
    requests: Option<&mut Requests>,
) -> Option<RequestError> {
    let (mut from_server, mut to_server) = server.split();
    let (mut from_guest, mut to_guest) = tokio::io::split(guest);
    let up = async {
        pump(&mut from_guest, &mut to_server, &traffic.up, traffic, IDLE, requests).await?;
        Ok::<(), RelayError>(to_server.shutdown().await?)
    };
    let down = async {
        pump(&mut from_server, &mut to_guest, &traffic.down, traffic, IDLE, None).await?;
        Ok::<(), RelayError>(to_guest.shutdown().await?)
    };
    match tokio::try_join!(up, down) {
        Err(RelayError::Request(error)) => Some(error),
        Ok(_) | Err(RelayError::Io(_) | RelayError::Idle) => None,
    }
}

/// What a guest asks for, in our words; else how it can be shown.
fn target(asked: Option<egress_request::Target>) -> Result<Target, String> {
    match asked {
        Some(egress_request::Target::Name(name)) => {
            HostName::parse(&name).map(Target::Name).map_err(|_| printable(&name, MAX_SHOWN))
        }
        Some(egress_request::Target::Address(address)) => {
            let v4 = <[u8; 4]>::try_from(&address[..]).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(&address[..]).map(IpAddr::from));
            address.map(Target::Address).map_err(|_| "no address".to_owned())
        }
        None => Err("nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests;
