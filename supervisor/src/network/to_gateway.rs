//! A connection to a name of the gateway's: the bytes are counted and paced as any other's, and end at the gateway
//! instead of at a server. The guest is told when the head of its request is decided about: one that is refused is
//! denied, with the gateway's answer as what its client is sent.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rekindle_protocol::wire::{self, egress_verdict::Verdict};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::connection::Attempt;
use super::denial::{Denial, DenialReason};
use super::gateway::{self, Grants, Report, Session};
use super::journal::{Asked, ConnectionState, GatewayRequest, Journal, OpenConnection};
use super::name::HostName;
use super::relay::{Direction, RelayError, pump};
use super::traffic::{Traffic, Way};
use super::verdict::{Gone, denied, tell};

/// Bytes between the guest and the gateway that neither has taken.
const BETWEEN: usize = 16 * 1024;
/// Most bytes of the answer to a request that is refused: it lists what is granted.
const MAX_REFUSAL: u64 = 256 * 1024;
/// How much longer than a service nothing may move: who waits for the service is told.
const LONGER: Duration = Duration::from_secs(30);

impl<S: AsyncRead + AsyncWrite + Unpin> Attempt<'_, S> {
    /// Serves a connection to the gateway.
    pub(super) async fn through_gateway(
        mut self,
        name: &HostName,
        service: &str,
        port: u16,
    ) -> Result<(), Gone> {
        let (gate, policy) = (self.gate, self.policy);
        let denial = |reason, rule| Denial {
            reason,
            policy: policy.name().to_owned(),
            rule: Some(rule),
            host: name.to_string(),
            port,
        };
        if let Some(cassette) = policy.replayed() {
            return self.deny(denial(DenialReason::NotRecorded, format!("replay {cassette}"))).await;
        }
        let grants = gate.grants.as_deref();
        let granted = || grants.map_or_else(|| "none".to_owned(), Grants::listed);
        let (Some(grants), Some(patience)) = (grants, grants.and_then(|grants| grants.patience(service)))
        else {
            let request = GatewayRequest { service: "", outcome: "not_granted", cost: 0 };
            gate.journal.gateway(self.owner.execution, &request);
            return self.deny(denial(DenialReason::NotGranted, granted())).await;
        };
        if port != gateway::PORT {
            return self.deny(denial(DenialReason::Port, format!("http {name}:{}", gateway::PORT))).await;
        }
        let place = match gate.room(policy) {
            Ok(place) => place,
            Err(reason) => return self.deny(denial(reason, format!("gateway {service}"))).await,
        };
        let idle = patience + LONGER;
        let (near, far) = tokio::io::duplex(BETWEEN);
        {
            let record = Record {
                asked: self.asked(name.to_string(), port),
                traffic: Arc::clone(&self.traffic),
                journal: &gate.journal,
                service,
                open: Mutex::default(),
                approved: Notify::new(),
                refusal: Mutex::default(),
            };
            let session =
                Session { grants, dialer: &gate.dialer, name, policy: policy.name(), report: &record };
            let (mut from_guest, mut to_guest) = tokio::io::split(&mut self.stream);
            let (mut from_gateway, mut to_gateway) = tokio::io::split(near);
            let direction = |way| Direction { way, traffic: &self.traffic, gate, idle };
            let (upwards, downwards) = (direction(Way::Up), direction(Way::Down));
            let up = async {
                pump(&mut from_guest, &mut to_gateway, &upwards, None).await?;
                to_gateway.shutdown().await?;
                // The answer is what ends it.
                std::future::pending::<Result<(), RelayError>>().await
            };
            let nonsense = || denial(DenialReason::NotHttp, format!("gateway {service}"));
            let down = async {
                let verdict = record.verdict(&mut from_gateway, nonsense).await;
                let accepted = matches!(verdict, Verdict::Accepted(_));
                tell(&mut to_guest, verdict)
                    .await
                    .map_err(|Gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
                if !accepted {
                    return Ok(to_guest.shutdown().await?);
                }
                pump(&mut from_gateway, &mut to_guest, &downwards, None).await?;
                Ok::<(), RelayError>(to_guest.shutdown().await?)
            };
            let answering = async {
                tokio::pin!(down);
                tokio::select! {
                    ended = &mut down => ended,
                    () = gateway::serve(far, &session) => down.await,
                }
            };
            tokio::pin!(up, answering);
            let mut heard_all = false;
            let ended = loop {
                tokio::select! {
                    ended = &mut answering => break ended,
                    // A program that is gone, or has said all, is answered as far as it listens.
                    heard = &mut up, if !heard_all => match heard {
                        Err(RelayError::Budget(spent)) => break Err(spent.into()),
                        _ => heard_all = true,
                    },
                }
            };
            match ended {
                Err(RelayError::Budget(_)) => {
                    record.end(denial(DenialReason::BudgetSpent, format!("gateway {service}")));
                }
                _ => record.unless_decided(nonsense),
            }
        }
        drop(place);
        Ok(())
    }
}

/// Puts what became of a request into the journal.
struct Record<'a> {
    asked: Asked,
    traffic: Arc<Traffic>,
    journal: &'a Arc<Journal>,
    service: &'a str,
    /// Once it was decided about.
    open: Mutex<Option<OpenConnection>>,
    /// Its head is approved.
    approved: Notify,
    /// Why it was refused.
    refusal: Mutex<Option<Denial>>,
}

impl Record<'_> {
    fn decide(&self, state: ConnectionState) -> OpenConnection {
        self.journal.decided(self.asked.clone(), Arc::clone(&self.traffic), state)
    }

    fn open(&self) -> MutexGuard<'_, Option<OpenConnection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that was let through is closed with this; one that was not is denied.
    fn end(&self, denial: Denial) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(denial.clone());
        let mut open = self.open();
        match &*open {
            Some(passed) => passed.close(Some(denial)),
            None => *open = Some(self.decide(ConnectionState::Denied(denial))),
        }
    }

    fn unless_decided(&self, denial: impl Fn() -> Denial) {
        let decided = self.open().is_some();
        if !decided {
            self.end(denial());
        }
    }

    /// What the guest is told: that the request goes on, or why it does not with all of the gateway's answer. Nothing is
    /// answered to one that is approved before it is.
    async fn verdict(&self, answer: impl AsyncRead + Unpin, nonsense: impl Fn() -> Denial) -> Verdict {
        let (mut answer, mut reply) = (answer.take(MAX_REFUSAL), Vec::new());
        tokio::select! {
            biased;
            () = self.approved.notified() => return Verdict::Accepted(wire::EgressAccepted {}),
            _ = answer.read_to_end(&mut reply) => {}
        }
        self.unless_decided(&nonsense);
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        denied(&refusal.unwrap_or_else(nonsense), reply)
    }

    fn tell(&self, outcome: &str, cost: u64) {
        let request = GatewayRequest { service: self.service, outcome, cost };
        self.journal.gateway(self.asked.owner.execution, &request);
    }
}

impl Report for Record<'_> {
    fn approved(&self) {
        self.approved.notify_one();
    }

    fn passed(&self, operation: &str, cost: u64) {
        let rule = format!("gateway {operation}");
        *self.open() = Some(self.decide(ConnectionState::Open { rule }));
        self.tell("passed", cost);
    }

    fn refused(&self, denial: Denial) {
        self.tell(denial.reason.as_str(), 0);
        self.end(denial);
    }

    fn failed(&self, operation: &str, why: String) {
        self.tell("failed", 0);
        let mut open = self.open();
        match &*open {
            // It was under way, and is over.
            Some(passed) => passed.close(None),
            None => {
                let why = format!("gateway {operation}: {why}");
                *open = Some(self.decide(ConnectionState::Failed { why }));
            }
        }
    }
}
