//! One connection whose requests are read, from its first bytes to its end.
//!
//! ```text
//!   first bytes fit? ──► record: server there? / replay: cassette there? ──► accepted ──► TLS ──► requests and answers
//!      └─no────────────────┴─no──► denied or failed, as for any other connection
//! ```

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rekindle_protocol::wire::{self, egress_verdict::Verdict};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::exchange::{Exchange, Source};
use super::interception::Interception;
use super::rewound::Rewound;
use super::upstream::{Upstream, UpstreamError};
use crate::network::cassette::CassetteName;
use crate::network::connection::{Attempt, IDLE};
use crate::network::denial::{Denial, DenialReason};
use crate::network::dial::DialError;
use crate::network::gate::Gate;
use crate::network::in_force::outlawed;
use crate::network::journal::{CassetteTrouble, ConnectionState};
use crate::network::name::HostName;
use crate::network::policy::{Protocol, Rule, Tape, Target};
use crate::network::relay::{Direction, RelayError, pump};
use crate::network::requests::{MAX_HEAD, Requests};
use crate::network::traffic::{Traffic, Way};
use crate::network::verdict::{FIRST_WORDS, Gone};

/// Bytes between the guest and who reads its requests that neither has taken.
const BETWEEN: usize = 16 * 1024;
/// Most fields of a head; `requests` takes fewer.
const MAX_FIELDS: usize = 128;

/// What a client has begun with.
enum Opening {
    /// A handshake for the name.
    Tls(Arc<ServerConfig>),
    /// A request for it. What may go on is said already.
    Http(Requests),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Attempt<'_, S> {
    /// Serves a connection whose requests are read.
    pub(in crate::network) async fn intercept(
        mut self,
        rule: &Rule,
        target: &Target,
        tape: &Tape,
    ) -> Result<(), Gone> {
        let gate = self.gate;
        let (Some(interception), Target::Name(name)) = (gate.interception.as_ref(), target) else {
            let reason = match target {
                Target::Name(_) => DenialReason::NotAllowed,
                Target::Address(_) => DenialReason::AddressLiteral,
            };
            let denial = self.denial(reason, rule, target);
            return self.deny(denial).await;
        };
        let mut first = Vec::new();
        let protocol = match rule.protocol {
            Protocol::Tcp => {
                let mut byte = [0];
                if let Ok(Ok(1)) = timeout(FIRST_WORDS, self.stream.read(&mut byte)).await {
                    first.extend(byte);
                }
                // The first byte of a handshake.
                if byte == [0x16] { Protocol::Tls } else { Protocol::Http }
            }
            known => known,
        };
        let mut attempt = self.rewound(first);
        let opening = match attempt.opening(protocol, interception, name, rule.port).await? {
            Ok(opening) if !attempt.is_outlawed(rule, target) => opening,
            refused => {
                let reason = refused.err().unwrap_or(DenialReason::PolicyChanged);
                let denial = attempt.denial(reason, rule, target);
                return attempt.deny(denial).await;
            }
        };
        let source = match tape {
            Tape::Record(cassette) => {
                match server(gate, interception, cassette, name, rule.port, protocol).await {
                    Ok(source) => source,
                    Err(Unserved::Private) => {
                        let denial = attempt.denial(DenialReason::PrivateAddress, rule, target);
                        return attempt.deny(denial).await;
                    }
                    Err(Unserved::Failed(why)) => return attempt.fail(target, rule.port, why).await,
                }
            }
            Tape::Replay(cassette) => {
                let (loader, wanted) = (Arc::clone(interception), cassette.clone());
                let loaded = tokio::task::spawn_blocking(move || loader.replay(&wanted)).await;
                match loaded {
                    Ok(Ok(replay)) => Source::Cassette { replay, cassette },
                    unread => {
                        if let Ok(Err(error)) = unread {
                            let why = format!("a cassette cannot be replayed: {error}");
                            let (cassette, host) = (cassette.as_str(), name.as_str());
                            gate.journal.cassette_trouble(&CassetteTrouble { cassette, host, why: &why });
                        }
                        let denial = attempt.denial(DenialReason::NotRecorded, rule, target);
                        return attempt.deny(denial).await;
                    }
                }
            }
        };
        let exchange = Exchange {
            source,
            scheme: if protocol == Protocol::Tls { "https" } else { "http" },
            host: name.to_string(),
            port: rule.port,
            refusal: attempt.denial(DenialReason::NotRecorded, rule, target),
            refused: Mutex::default(),
            journal: Arc::clone(&gate.journal),
        };
        attempt.converse(rule, target, name, opening, &exchange).await
    }

    async fn converse(
        mut self,
        rule: &Rule,
        target: &Target,
        name: &HostName,
        opening: Opening,
        exchange: &Exchange<'_>,
    ) -> Result<(), Gone> {
        self.tell(Verdict::Accepted(wire::EgressAccepted {})).await?;
        let said = std::mem::take(&mut self.said);
        let (gate, traffic) = (self.gate, Arc::clone(&self.traffic));
        let asked = self.asked(target.to_string(), rule.port);
        let decided = |state| gate.journal.decided(asked, Arc::clone(&traffic), state);
        let opened = ConnectionState::Open { rule: rule.to_string() };
        let dialogue = Dialogue { gate, traffic: &traffic, rule, target, exchange };
        let (open, cut) = match opening {
            Opening::Http(requests) => {
                let open = decided(opened);
                (open, dialogue.run(&mut self.stream, said, requests).await)
            }
            Opening::Tls(config) => {
                let accepting = TlsAcceptor::from(config).accept(Rewound::new(said, &mut self.stream));
                let Ok(Ok(mut plain)) = timeout(FIRST_WORDS, accepting).await else {
                    let why =
                        "the client does not take the certificate of its sandbox's authority".to_owned();
                    drop(decided(ConnectionState::Failed { why }));
                    return Ok(());
                };
                let open = decided(opened);
                let requests = Requests::new(name.clone(), rule.port);
                (open, dialogue.run(&mut plain, Vec::new(), requests).await)
            }
        };
        let refused = exchange.refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        let denial = cut.map(|reason| self.denial(reason, rule, target)).or(refused);
        open.close(denial);
        Ok(())
    }
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Attempt<'a, S> {
    /// The same with bytes that were read already.
    fn rewound(self, first: Vec<u8>) -> Attempt<'a, Rewound<S>> {
        let Self { stream, said, policy, gate, owner, traffic } = self;
        Attempt { stream: Rewound::new(first, stream), said, policy, gate, owner, traffic }
    }

    /// Holds the client's first words to the name.
    async fn opening(
        &mut self,
        protocol: Protocol,
        interception: &Interception,
        name: &HostName,
        port: u16,
    ) -> Result<Result<Opening, DenialReason>, Gone> {
        if protocol != Protocol::Tls {
            return Ok(self.check_first_request(name, port).await?.map(Opening::Http));
        }
        let checked = self.check_hello(name).await?;
        Ok(checked.and_then(|()| match interception.server(name) {
            Ok(config) => Ok(Opening::Tls(config)),
            Err(error) => {
                tracing::error!(%error, "a connection that a policy reads cannot be served");
                Err(DenialReason::NotAllowed)
            }
        }))
    }
}

/// Why a server is not there.
enum Unserved {
    Private,
    Failed(String),
}

impl From<UpstreamError> for Unserved {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::Dial(DialError::Private) => Self::Private,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The server of a name, with a first connection to it.
async fn server<'a>(
    gate: &'a Gate,
    interception: &'a Arc<Interception>,
    cassette: &'a CassetteName,
    name: &'a HostName,
    port: u16,
    protocol: Protocol,
) -> Result<Source<'a>, Unserved> {
    let tls = match protocol {
        Protocol::Tls => {
            let trust = Arc::clone(&interception.trust);
            let config = tokio::task::spawn_blocking(move || trust.config()).await;
            let config = config.unwrap_or_else(|error| Err(error.to_string()));
            Some(config.map_err(|why| Unserved::Failed(format!("this host trusts no certificates: {why}")))?)
        }
        Protocol::Http | Protocol::Tcp => None,
    };
    let upstream = Upstream { dialer: &gate.dialer, name, port, tls };
    let ready = Mutex::new(Some(upstream.connect().await?));
    Ok(Source::Server { upstream, ready, cassette, interception })
}

/// Requests and answers of one connection.
struct Dialogue<'a> {
    gate: &'a Gate,
    traffic: &'a Traffic,
    rule: &'a Rule,
    target: &'a Target,
    exchange: &'a Exchange<'a>,
}

impl Dialogue<'_> {
    /// Goes on until both sides have ended, or it is cut off; then why.
    async fn run(
        &self,
        plain: &mut (impl AsyncRead + AsyncWrite + Unpin),
        said: Vec<u8>,
        mut requests: Requests,
    ) -> Option<DenialReason> {
        let (near, far) = tokio::io::duplex(BETWEEN);
        let talked = {
            let (mut from_guest, mut to_guest) = tokio::io::split(&mut *plain);
            let (mut from_reader, mut to_reader) = tokio::io::split(near);
            let direction = |way| Direction { way, traffic: self.traffic, gate: self.gate, idle: IDLE };
            let (upwards, downwards) = (direction(Way::Up), direction(Way::Down));
            let up = async {
                let heard = async {
                    self.traffic.take(Way::Up, said.len(), self.gate.policy().budget()).await?;
                    to_reader.write_all(&said).await?;
                    self.traffic.moved(Way::Up, said.len());
                    if let Some(error) = requests.refused() {
                        return Err(error.into());
                    }
                    pump(&mut from_guest, &mut to_reader, &upwards, Some(&mut requests)).await
                }
                .await;
                // What was asked for before is answered first.
                let _ = to_reader.shutdown().await;
                heard
            };
            let down = pump(&mut from_reader, &mut to_guest, &downwards, None);
            let answering = async {
                tokio::pin!(down);
                tokio::select! {
                    ended = &mut down => ended,
                    () = self.read(far) => down.await,
                }
            };
            tokio::pin!(up, answering);
            let mut heard = None;
            let talking = async {
                loop {
                    tokio::select! {
                        ended = &mut answering => break ended,
                        said = &mut up, if heard.is_none() => match said {
                            Err(RelayError::Budget(spent)) => break Err(spent.into()),
                            said => heard = Some(said),
                        },
                    }
                }
            };
            let ended = tokio::select! {
                ended = talking => ended,
                () = outlawed(self.gate, self.rule, self.target) => return Some(DenialReason::PolicyChanged),
            };
            match (ended, heard) {
                (Err(RelayError::Budget(_)), _) => return Some(DenialReason::BudgetSpent),
                (Ok(()), Some(Err(RelayError::Request(error)))) => Some(error.into()),
                _ => None,
            }
        };
        if let Some(reason) = talked {
            let policy = self.gate.policy();
            let denial = Denial::new(reason, policy.name(), self.target, self.rule.port).by(self.rule);
            let _ = timeout(FIRST_WORDS, plain.write_all(&denial.http_response())).await;
        }
        let _ = timeout(FIRST_WORDS, plain.shutdown()).await;
        talked
    }

    /// Reads requests and answers them, to the end of the connection.
    async fn read(&self, io: tokio::io::DuplexStream) {
        let handle = service_fn(|request| async { Ok::<_, Infallible>(self.exchange.answer(request).await) });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.half_close(true).auto_date_header(false).max_buf_size(2 * MAX_HEAD).max_headers(MAX_FIELDS);
        // What goes wrong is between the program and its request.
        let _ = builder.serve_connection(TokioIo::new(io), handle).await;
    }
}
