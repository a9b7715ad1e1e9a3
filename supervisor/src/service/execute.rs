//! Runs a program to its end. With an idempotency key it runs once however often it is asked for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tracing::Instrument as _;

use super::call::Call;
use super::caller::{Caller, Scope};
use super::create::check_memory;
use super::diagnosis::Diagnosis;
use super::error::ServiceError;
use super::id::ExecutionId;
use super::idempotency::{Fingerprint, MAX_KEY, Place};
use super::program::{ExecuteSpec, Input};
use super::registry::Service;
use super::sandbox::Sandbox;
use super::timeline::TimelineOutcome;
use super::turns::TurnsLeft;
use crate::agent::{ExecuteRequest, Finished, Stdin};
use crate::network::NetworkSummary;
use crate::telemetry::Origin;

/// Bytes that a program is believed to print in a second: more than any machine can.
const PRINTED_PER_SECOND: u64 = 16 << 30;

/// A finished execution.
#[derive(Debug, Clone)]
pub struct Executed {
    /// Its name.
    pub execution: ExecutionId,
    /// How it ended.
    pub finished: Arc<Finished>,
    /// What it did on the network.
    pub network: Arc<NetworkSummary>,
    /// What went wrong in it, if something did.
    pub diagnosis: Option<Arc<Diagnosis>>,
    /// How many turns its sandbox had left, where they are bounded.
    pub turns: Option<TurnsLeft>,
    /// It was run for an earlier call with the same key.
    pub replayed: bool,
}

impl Service {
    /// Runs a program. Dropping the future kills it.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn execute(
        &self,
        caller: &Caller,
        sandbox: &str,
        spec: ExecuteSpec,
        stdin: Bytes,
        key: &str,
    ) -> Result<Executed, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        sandbox.check_user(caller, spec.user)?;
        check_memory(spec.memory_bytes, sandbox.facts.limits.memory_bytes)?;
        let input = Input::Whole(stdin);
        let request = spec.request(self.config(), &input, None, false)?;
        let Input::Whole(stdin) = input else { return Err(ServiceError::invalid("no input")) };
        if key.is_empty() {
            return self.run(sandbox, &caller.origin, &spec, request, stdin).await;
        }
        ServiceError::bound("the length of idempotency_key", key.len() as u64, MAX_KEY as u64)?;
        let fingerprint = Fingerprint::of([&request.encode_to_vec()[..], &stdin[..]]);
        let place = sandbox.lock().keys.place(key, &fingerprint)?;
        let waiter = match place {
            Place::First(slot) => {
                let (service, owner, span) = (self.clone(), sandbox.clone(), sandbox.span.clone());
                let origin = caller.origin.clone();
                let run = async move { service.run(owner, &origin, &spec, request, stdin).await };
                let run = run.instrument(span);
                slot.fill(run, move |settled| sandbox.lock().keys.settle(settled))
            }
            Place::Later(waiter) => waiter,
        };
        let first = waiter.is_first();
        waiter.wait().await.map(|executed| Executed { replayed: !first, ..executed })
    }

    async fn run(
        &self,
        sandbox: Arc<Sandbox>,
        origin: &Origin,
        spec: &ExecuteSpec,
        mut request: ExecuteRequest,
        stdin: Bytes,
    ) -> Result<Executed, ServiceError> {
        let mut call = Call::begin_turn(self, sandbox, origin, "execute", &spec.about())?;
        let execution = call.sandbox().next_execution();
        call.execution(execution);
        request.label = execution.0;
        call.note(|entry| entry.bytes_in = stdin.len() as u64);
        let ran = run_in(&call, request, stdin).await;
        match ran {
            Ok(finished) => Ok(call.ended(execution, finished)),
            Err(error) => {
                let failed = Err(call.not_in_timezone(error, spec.clock.timezone()).await);
                call.not_started(&failed);
                failed
            }
        }
    }
}

async fn run_in(call: &Call, request: ExecuteRequest, stdin: Bytes) -> Result<Finished, ServiceError> {
    let agent = call.sandbox().agent();
    if request.stdin != i32::from(Stdin::Live) {
        return call.wait(agent.run(request)).await;
    }
    let mut execution = call.wait(agent.execute(request)).await?;
    // What is too long for one message is fed while it runs.
    let feeding = execution.take_stdin();
    let feed = async {
        if let Some(mut writer) = feeding {
            // A program that does not read to the end is not wrong.
            let _ = writer.send(stdin).await;
            writer.eof();
        }
    };
    let (finished, ()) = tokio::join!(call.wait(execution.wait()), feed);
    finished
}

impl Call {
    /// Ends the call of an execution that has ended, and tells what came of it.
    pub(super) fn ended(mut self, execution: ExecutionId, finished: Finished) -> Executed {
        note_finished(&mut self, &finished);
        let network = self.network();
        let diagnosis = self.diagnose(&finished, &network).map(Arc::new);
        let turns = self.turn().cloned();
        self.done(&Ok(()));
        let (finished, network) = (Arc::new(finished), Arc::new(network));
        Executed { execution, finished, network, diagnosis, turns, replayed: false }
    }
}

/// Puts how an execution ended into the timeline.
pub(super) fn note_finished(call: &mut Call, finished: &Finished) {
    let most = most_printed(call.elapsed());
    call.note(|entry| {
        entry.outcome = TimelineOutcome::Execution(finished.outcome);
        entry.cpu_time = Duration::from_micros(finished.usage.cpu_micros);
        entry.memory_peak_bytes = finished.usage.peak_memory_bytes;
        entry.bytes_out = finished.stdout.total_bytes.saturating_add(finished.stderr.total_bytes).min(most);
    });
}

/// The most that can have been printed in a time that the host has measured itself. What was printed is the guest's
/// word and goes into sums: one lie must not make them worthless for ever.
fn most_printed(took: Duration) -> u64 {
    PRINTED_PER_SECOND.saturating_mul(took.as_secs().saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_claim_of_a_guest_fills_the_sums() {
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        assert!(most_printed(year) < u64::MAX / 16, "a year of lies leaves room");
        assert!(most_printed(Duration::ZERO) >= PRINTED_PER_SECOND, "an honest program is believed");
        assert_eq!(most_printed(Duration::MAX), u64::MAX, "no overflow");
    }
}
