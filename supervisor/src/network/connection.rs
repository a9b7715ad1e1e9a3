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
use std::sync::Arc;
use std::time::Duration;

use rekindle_protocol::frame;
use rekindle_protocol::limits::{MAX_EGRESS_REQUEST_BYTES, REQUEST_DEADLINE};
use rekindle_protocol::wire::{self, egress_request, egress_verdict::Verdict};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::client_hello::{ClientHelloReader, HelloError};
use super::denial::{Denial, DenialReason, unreachable};
use super::dial::DialError;
use super::gate::Gate;
use super::gateway;
use super::in_force::{allows, outlawed};
use super::journal::{Asked, ConnectionState, OpenConnection, Owner};
use super::name::HostName;
use super::policy::{Policy, Protocol, Rule, Target};
use super::relay::{Direction, RelayError, pump};
use super::requests::{RequestError, Requests};
use super::traffic::{Traffic, Way};
use super::verdict::{self, FIRST_WORDS, Gone};
use crate::host::untrusted::printable;

/// How long the first words of a client that is denied are waited for: they decide how it is told. One that waits for
/// its server to speak says nothing, and is told no sooner.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Ports where the client is the first to speak, so that it is worth waiting for one that is slow.
const CLIENT_SPEAKS_FIRST: [u16; 4] = [80, 443, 8080, 8443];
/// How long a connection may go without a byte in either direction.
pub(super) const IDLE: Duration = Duration::from_secs(300);
/// How long a server may take to finish what it was asked for before a later request was refused.
const FINISH: Duration = Duration::from_secs(30);
/// Bytes that are read at once while a client's first words are looked at.
const PIECE: usize = 4096;
/// Bytes that are shown of what is no name.
const MAX_SHOWN: usize = 256;

/// Serves one stream to its end. What becomes of it is in the gate's journal.
pub async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, gate: &Gate) {
    let mut opening = (&mut stream).take(MAX_EGRESS_REQUEST_BYTES);
    let request = timeout(REQUEST_DEADLINE, frame::read::<wire::EgressRequest>(&mut opening)).await;
    let Ok(Ok(Some(request))) = request else { return };
    let owner = gate.journal.owner(request.execution);
    let traffic = Arc::new(Traffic::new(Arc::clone(&gate.spent), owner.sums.clone()));
    let policy = gate.policy();
    let attempt = Attempt { stream, said: Vec::new(), policy: &policy, gate, owner, traffic };
    // A guest that is gone is told nothing.
    let _ = attempt.run(request).await;
}

pub(super) struct Attempt<'a, S> {
    pub(super) stream: S,
    /// What the client has said so far.
    pub(super) said: Vec<u8>,
    pub(super) policy: &'a Policy,
    pub(super) gate: &'a Gate,
    /// By the guest's word.
    pub(super) owner: Owner,
    pub(super) traffic: Arc<Traffic>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Attempt<'_, S> {
    async fn run(mut self, request: wire::EgressRequest) -> Result<(), Gone> {
        let port = u16::try_from(request.port).unwrap_or(0);
        let target = match target(request.target) {
            Ok(target) => target,
            Err(shown) => {
                let policy = self.policy.name().to_owned();
                let reason = DenialReason::InvalidName;
                return self.deny(Denial { reason, policy, rule: None, host: shown, port }).await;
            }
        };
        // Before any policy is asked: such a name means nothing to anybody outside, whatever a rule says.
        if let Some((name, service)) = gateway::asked(&target) {
            return self.through_gateway(name, service, port).await;
        }
        let rule = match self.policy.decide(&target, port) {
            Ok(rule) => rule,
            Err(denial) => return self.deny(denial).await,
        };
        let place = match self.gate.room(self.policy) {
            Ok(place) => place,
            Err(reason) => {
                let denial = self.denial(reason, &rule, &target);
                return self.deny(denial).await;
            }
        };
        if let Some(tape) = &rule.tape {
            let served = self.intercept(&rule, &target, tape).await;
            drop(place);
            return served;
        }
        let mut requests = None;
        let checked = match (rule.protocol, &target) {
            (Protocol::Tcp, _) => Ok(()),
            (Protocol::Tls, Target::Name(name)) => self.check_hello(name).await?,
            (Protocol::Http, Target::Name(name)) => {
                self.check_first_request(name, port).await?.map(|first| requests = Some(first))
            }
            (Protocol::Tls | Protocol::Http, Target::Address(_)) => Err(DenialReason::AddressLiteral),
        };
        // The client may have taken its time, and the policy may be another by now.
        let checked = match self.is_outlawed(&rule, &target) {
            true => Err(DenialReason::PolicyChanged),
            false => checked,
        };
        if let Err(reason) = checked {
            let denial = self.denial(reason, &rule, &target);
            return self.deny(denial).await;
        }
        let served = match self.gate.dialer.dial(&target, port).await {
            Ok(server) => self.relay(server, &rule, &target, requests).await,
            Err(DialError::Private) => {
                let denial = self.denial(DenialReason::PrivateAddress, &rule, &target);
                self.deny(denial).await
            }
            Err(error) => self.fail(&target, port, error.to_string()).await,
        };
        drop(place);
        served
    }

    /// Whether the policy in force would not let this connection through in the same way.
    pub(super) fn is_outlawed(&self, rule: &Rule, target: &Target) -> bool {
        !allows(&self.gate.policy(), rule, target)
    }

    pub(super) fn denial(&self, reason: DenialReason, rule: &Rule, target: &Target) -> Denial {
        Denial::new(reason, self.policy.name(), target, rule.port).by(rule)
    }

    /// What it asks for, in the journal's words.
    pub(super) fn asked(&self, host: String, port: u16) -> Asked {
        Asked { owner: self.owner.clone(), host, port, policy: self.policy.name().to_owned() }
    }

    /// Enters the decision in the journal.
    pub(super) fn decided(&self, host: String, port: u16, state: ConnectionState) -> OpenConnection {
        self.gate.journal.decided(self.asked(host, port), Arc::clone(&self.traffic), state)
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
    pub(super) async fn check_hello(&mut self, name: &HostName) -> Result<Result<(), DenialReason>, Gone> {
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
    pub(super) async fn check_first_request(
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
            let refused = requests.push(&piece[..read], &mut self.said, &|| self.gate.take_request());
            if let (Err(error), 0) = (refused, requests.passed()) {
                self.said = heard;
                return Ok(Err(error.into()));
            }
        }
        Ok(Ok(requests))
    }

    /// Waits a little for what the client says, where it has said nothing: it decides in which protocol it is told.
    async fn hear_last_words(&mut self, port: u16) -> Result<(), Gone> {
        if self.said.is_empty() {
            let mut piece = [0; PIECE];
            let patience = if CLIENT_SPEAKS_FIRST.contains(&port) { FIRST_WORDS } else { LAST_WORDS };
            let deadline = Instant::now() + patience;
            if let Some(read) = self.listen(deadline, &mut piece).await? {
                self.said.extend_from_slice(&piece[..read]);
            }
        }
        Ok(())
    }

    /// Tells the client in its own protocol, and the guest in words.
    pub(super) async fn deny(mut self, denial: Denial) -> Result<(), Gone> {
        let (host, port) = (denial.host.clone(), denial.port);
        // Before the guest knows: whoever sees what it does finds why.
        drop(self.decided(host, port, ConnectionState::Denied(denial.clone())));
        self.hear_last_words(port).await?;
        let reply = denial.reply(&self.said);
        self.tell(verdict::denied(&denial, reply)).await?;
        let _ = self.stream.shutdown().await;
        Ok(())
    }

    pub(super) async fn fail(mut self, target: &Target, port: u16, why: String) -> Result<(), Gone> {
        drop(self.decided(target.to_string(), port, ConnectionState::Failed { why: why.clone() }));
        self.hear_last_words(port).await?;
        let message = format!("{target}:{port}: {why}");
        let reply = unreachable(&message, &self.said).into();
        self.tell(Verdict::Failed(wire::EgressFailed { message, reply })).await?;
        let _ = self.stream.shutdown().await;
        Ok(())
    }

    pub(super) async fn tell(&mut self, verdict: Verdict) -> Result<(), Gone> {
        verdict::tell(&mut self.stream, verdict).await
    }

    async fn relay(
        mut self,
        mut server: TcpStream,
        rule: &Rule,
        target: &Target,
        mut requests: Option<Requests>,
    ) -> Result<(), Gone> {
        let open =
            self.decided(target.to_string(), rule.port, ConnectionState::Open { rule: rule.to_string() });
        self.tell(Verdict::Accepted(wire::EgressAccepted {})).await?;
        let said = std::mem::take(&mut self.said);
        let heard = match self.is_outlawed(rule, target) {
            true => Err(Cut::Policy),
            false => self.say(&said, &mut server).await?,
        };
        let cut = match heard {
            Err(cut) => Some(cut),
            // One that came together with the first and is refused.
            Ok(()) => match requests.as_ref().and_then(Requests::refused) {
                Some(error) => Some(Cut::Request(error)),
                None => self.both_ways(&mut server, rule, target, requests.as_mut()).await,
            },
        };
        let denial = cut.as_ref().map(|cut| self.denial(cut.reason(), rule, target));
        if let (Some(Cut::Request(_)), Some(denial)) = (&cut, &denial) {
            self.refuse_later(&mut server, denial).await;
        }
        // What has not ended by itself is reset.
        open.close(denial);
        Ok(())
    }

    /// Passes on what the client has said so far. It is little, and a server that does not take even that is not
    /// waited for.
    async fn say(&mut self, said: &[u8], server: &mut TcpStream) -> Result<Result<(), Cut>, Gone> {
        if self.traffic.take(Way::Up, said.len(), self.policy.budget()).await.is_err() {
            return Ok(Err(Cut::Budget));
        }
        match timeout(FIRST_WORDS, server.write_all(said)).await {
            Ok(Ok(())) => self.traffic.moved(Way::Up, said.len()),
            _ => return Err(Gone),
        }
        Ok(Ok(()))
    }

    /// Moves bytes until both directions have ended, one has failed, or it is cut off.
    async fn both_ways(
        &mut self,
        server: &mut TcpStream,
        rule: &Rule,
        target: &Target,
        requests: Option<&mut Requests>,
    ) -> Option<Cut> {
        let (mut from_server, mut to_server) = server.split();
        let (mut from_guest, mut to_guest) = tokio::io::split(&mut self.stream);
        let direction = |way| Direction { way, traffic: &self.traffic, gate: self.gate, idle: IDLE };
        let (upwards, downwards) = (direction(Way::Up), direction(Way::Down));
        let up = async {
            pump(&mut from_guest, &mut to_server, &upwards, requests).await?;
            Ok::<(), RelayError>(to_server.shutdown().await?)
        };
        let down = async {
            pump(&mut from_server, &mut to_guest, &downwards, None).await?;
            Ok::<(), RelayError>(to_guest.shutdown().await?)
        };
        let moving = async { tokio::try_join!(up, down) };
        tokio::select! {
            moved = moving => match moved {
                Err(RelayError::Request(error)) => Some(Cut::Request(error)),
                Err(RelayError::Budget(_)) => Some(Cut::Budget),
                Ok(_) | Err(RelayError::Io(_) | RelayError::Idle) => None,
            },
            () = outlawed(self.gate, rule, target) => Some(Cut::Policy),
        }
    }

    /// Refuses a later request of a connection: what was asked for before is answered first, then comes the refusal,
    /// as one more response.
    async fn refuse_later(&mut self, server: &mut TcpStream, denial: &Denial) {
        let _ = server.shutdown().await;
        let direction = Direction { way: Way::Down, traffic: &self.traffic, gate: self.gate, idle: FINISH };
        let rest = pump(server, &mut self.stream, &direction, None);
        let _ = timeout(FINISH, rest).await;
        let _ = timeout(FIRST_WORDS, self.stream.write_all(&denial.http_response())).await;
        let _ = timeout(FIRST_WORDS, self.stream.shutdown()).await;
    }
}

/// Why a connection that was let through is cut off.
enum Cut {
    /// A later request is refused.
    Request(RequestError),
    /// The budget is spent.
    Budget,
    /// Another policy is in force.
    Policy,
}

impl Cut {
    fn reason(&self) -> DenialReason {
        match self {
            Self::Request(error) => (*error).into(),
            Self::Budget => DenialReason::BudgetSpent,
            Self::Policy => DenialReason::PolicyChanged,
        }
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
