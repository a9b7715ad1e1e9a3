//! What the supervisor makes of the events of one connection: they go into the journal and the sums of its sandbox, as
//! far as they make sense. A worker that a guest has taken over gets no more out of this than a journal that is wrong
//! about that guest's own connections.

use std::sync::Arc;

use super::event::Event;
use crate::host::untrusted::printable;
use crate::network::denial::{Denial, DenialReason};
use crate::network::gate::Gate;
use crate::network::journal::{
    Asked, CassetteTrouble, ConnectionState, GatewayRequest, OpenConnection, Owner,
};
use crate::network::policy::Budget;
use crate::network::traffic::{Traffic, Way};

/// Most bytes of a text that is remembered: longer than a name, and than the operations that a denial lists.
const MAX_TEXT: usize = 4096;
/// Most requests of one connection to the gateway that are told: it carries one, which may pass and then fail.
const MAX_GATEWAY: u32 = 2;

/// An event that no worker of ours tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nonsense {
    #[error("a connection is claimed twice, or late")]
    Claimed,
    #[error("a connection is decided about twice, or before it was asked for")]
    Decided,
    #[error("a connection begins as one that has ended")]
    State,
    #[error("a connection ends that was not let through")]
    Closed,
    #[error("a request to the gateway that there is no grant for")]
    Gateway,
}

/// What was heard of one connection.
pub(super) struct Heard<'a> {
    gate: &'a Gate,
    owner: Option<Owner>,
    traffic: Option<Arc<Traffic>>,
    open: Option<OpenConnection>,
    gateway: u32,
}

impl<'a> Heard<'a> {
    pub(super) fn new(gate: &'a Gate) -> Self {
        Self { gate, owner: None, traffic: None, open: None, gateway: 0 }
    }

    /// Takes notice.
    pub(super) fn event(&mut self, event: Event) -> Result<(), Nonsense> {
        match event {
            Event::Claimed { execution } => {
                if self.owner.is_some() {
                    return Err(Nonsense::Claimed);
                }
                let owner = self.gate.journal.owner(execution);
                self.traffic = Some(Arc::new(Traffic::new(Arc::clone(&self.gate.spent), owner.sums.clone())));
                self.owner = Some(owner);
            }
            Event::Decided { host, port, policy, state } => self.decided(&host, port, &policy, state)?,
            Event::Moved { up, down } => {
                let traffic = self.traffic.as_ref().ok_or(Nonsense::Decided)?;
                traffic.told(Way::Up, up);
                traffic.told(Way::Down, down);
            }
            Event::Closed { denial } => {
                self.open.as_ref().ok_or(Nonsense::Closed)?.close(denial.map(checked));
            }
            Event::Request => {
                // The worker has asked the budget.
                self.gate.spent.take_request(&Budget::default());
                self.gate.journal.request();
            }
            Event::Gateway { service, outcome, cost } => self.gateway(&service, &outcome, cost)?,
            Event::CassetteTrouble { cassette, host, why } => {
                let [cassette, host, why] = [cassette, host, why].map(|said| text(&said));
                let trouble = CassetteTrouble { cassette: &cassette, host: &host, why: &why };
                self.gate.journal.cassette_trouble(&trouble);
            }
            Event::Ended => {}
        }
        Ok(())
    }

    fn decided(
        &mut self,
        host: &str,
        port: u16,
        policy: &str,
        state: ConnectionState,
    ) -> Result<(), Nonsense> {
        let (Some(owner), Some(traffic), None) = (&self.owner, &self.traffic, &self.open) else {
            return Err(Nonsense::Decided);
        };
        let state = match state {
            ConnectionState::Open { rule } => ConnectionState::Open { rule: text(&rule) },
            ConnectionState::Denied(denial) => ConnectionState::Denied(checked(denial)),
            ConnectionState::Failed { why } => ConnectionState::Failed { why: text(&why) },
            ConnectionState::Closed { .. } => return Err(Nonsense::State),
        };
        let asked = Asked { owner: owner.clone(), host: text(host), port, policy: text(policy) };
        self.open = Some(self.gate.journal.decided(asked, Arc::clone(traffic), state));
        Ok(())
    }

    /// Services and outcomes are labels of metrics, which must stay few.
    fn gateway(&mut self, service: &str, outcome: &str, cost: u64) -> Result<(), Nonsense> {
        let grants = self.gate.grants.as_deref();
        let granted = service.is_empty() || grants.is_some_and(|grants| grants.patience(service).is_some());
        let reason = serde_json::from_value::<DenialReason>(outcome.into());
        let known = matches!(outcome, "passed" | "failed") || reason.is_ok();
        self.gateway += 1;
        if !granted || !known || self.gateway > MAX_GATEWAY {
            return Err(Nonsense::Gateway);
        }
        if let (Some(grants), "passed") = (grants, outcome) {
            grants.passed(cost);
        }
        let execution = self.owner.as_ref().map_or(0, |owner| owner.execution);
        self.gate.journal.gateway(execution, &GatewayRequest { service, outcome, cost });
        Ok(())
    }
}

fn text(text: &str) -> String {
    printable(text, MAX_TEXT)
}

fn checked(denial: Denial) -> Denial {
    let Denial { reason, policy, rule, host, port } = denial;
    Denial { reason, policy: text(&policy), rule: rule.map(|rule| text(&rule)), host: text(&host), port }
}

#[cfg(test)]
mod tests {
    //! What a worker that lies gets out of it.

    use super::*;
    use crate::network::Egress;

    fn denied(host: &str) -> ConnectionState {
        let reason = DenialReason::NotAllowed;
        ConnectionState::Denied(Denial { reason, policy: "p".into(), rule: None, host: host.into(), port: 1 })
    }

    fn decided(state: ConnectionState) -> Event {
        Event::Decided { host: "a.example".into(), port: 443, policy: "p".into(), state }
    }

    fn open() -> Event {
        decided(ConnectionState::Open { rule: "tls a.example:443".into() })
    }

    fn gate() -> Gate {
        let egress = Egress::default();
        egress.gate(egress.policy("").unwrap(), None)
    }

    #[test]
    fn a_connection_is_claimed_decided_about_and_closed_in_this_order_and_once() {
        let claimed = || Event::Claimed { execution: 1 };
        let closed = || Event::Closed { denial: None };
        for (events, nonsense) in [
            (vec![claimed(), open(), closed()], None),
            (vec![open()], Some(Nonsense::Decided)),
            (vec![Event::Moved { up: 1, down: 1 }], Some(Nonsense::Decided)),
            (vec![claimed(), claimed()], Some(Nonsense::Claimed)),
            (vec![claimed(), open(), open()], Some(Nonsense::Decided)),
            (vec![claimed(), decided(denied("a.example")), open()], Some(Nonsense::Decided)),
            (vec![claimed(), closed()], Some(Nonsense::Closed)),
        ] {
            let gate = gate();
            let mut heard = Heard::new(&gate);
            let shown = format!("{events:?}");
            let found = events.into_iter().find_map(|event| heard.event(event).err());
            assert_eq!(found, nonsense, "{shown}");
        }
        let gate = gate();
        let mut heard = Heard::new(&gate);
        heard.event(claimed()).unwrap();
        let ended = ConnectionState::Closed { rule: "x".into(), denial: None };
        assert_eq!(heard.event(decided(ended)), Err(Nonsense::State));
    }

    #[test]
    fn what_it_says_is_bounded_and_goes_to_the_execution_that_the_host_began() {
        let gate = gate();
        gate.journal().begin(7);
        let mut heard = Heard::new(&gate);
        heard.event(Event::Claimed { execution: 7 }).unwrap();
        heard.event(decided(denied(&format!("a\u{1b}{}", "x".repeat(1 << 20))))).unwrap();
        for (up, down) in [(10, 20), (5, 30), (u64::MAX, 30), (1, u64::MAX)] {
            heard.event(Event::Moved { up, down }).unwrap();
        }
        drop(heard);
        let view = gate.journal().after(0).unwrap();
        let denial = view.state.denial().unwrap();
        assert!(
            denial.host.len() <= MAX_TEXT && denial.host.starts_with("a\\u{1b}x"),
            "{}",
            denial.host.len()
        );
        let summary = gate.journal().end(7);
        assert_eq!((summary.connections, summary.denied), (1, 1));
        assert_eq!((summary.up, summary.down), (u64::MAX, u64::MAX), "sums only grow, and have an end");
        assert_eq!((gate.summary().up, gate.summary().down), (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_gateway_is_told_of_for_services_that_were_granted_and_in_words_that_are_known() {
        let gate = gate();
        let told = |service: &str, outcome: &str, times: usize| {
            let mut heard = Heard::new(&gate);
            let event = Event::Gateway { service: service.into(), outcome: outcome.into(), cost: 0 };
            std::iter::repeat_n(event, times).find_map(|event| heard.event(event).err())
        };
        assert_eq!(told("", "not_granted", 1), None);
        assert_eq!(told("", "failed", 2), None);
        assert_eq!(told("", "failed", 3), Some(Nonsense::Gateway), "one request a connection");
        assert_eq!(told("ai", "passed", 1), Some(Nonsense::Gateway), "it was not granted");
        assert_eq!(told("", "made_up", 1), Some(Nonsense::Gateway));
    }
}
