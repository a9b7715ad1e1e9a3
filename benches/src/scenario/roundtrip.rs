//! What an execution costs beside the program itself: `true` in a warm sandbox, against a bare round trip
//! over the same channel.
//!
//! The program's own time, as the guest measured it from before the process was made until it was collected,
//! is taken off. The bare round trip is the agent's ping: one stream, one small request, one small answer.

use std::time::{Duration, Instant};

use anyhow::Result;
use rekindle::agent::AgentClient;

use super::{Scenario, first_run};
use crate::bed::PATIENCE;
use crate::record::{Kind, Record, Sample};

/// Pairs taken in one round: each takes little time.
const PAIRS: usize = 5;
/// Pairs before the first one that counts: code is translated, pages are touched.
const WARM_UP: usize = 20;
/// How long a guest is left alone before each: it tidies up after an execution whose result is on its way, and a bare
/// round trip meanwhile would be anything but bare.
const REST: Duration = Duration::from_millis(50);

/// Gets a fresh sandbox used to it.
///
/// # Errors
/// When it does not answer.
pub async fn warm_up(agent: &AgentClient) -> Result<()> {
    for _ in 0..WARM_UP {
        pair(agent).await?;
    }
    Ok(())
}

/// Some pairs of both.
///
/// # Errors
/// When one fails.
pub async fn sample(agent: &AgentClient, record: &mut Record) -> Result<()> {
    for _ in 0..PAIRS {
        let (whole, own, ping) = pair(agent).await?;
        let kind = |name: &str, what: &str| Kind::time(Scenario::ExecRoundtrip, name, what);
        record.add(
            kind("exec_roundtrip", "`true` in a warm sandbox, its own time left out"),
            Sample::of(whole.saturating_sub(own)),
        );
        record.add(kind("exec_whole", "`true` in a warm sandbox, all of it"), Sample::of(whole));
        record.add(kind("ping", "a bare round trip to the agent"), Sample::of(ping));
    }
    Ok(())
}

async fn pair(agent: &AgentClient) -> Result<(Duration, Duration, Duration)> {
    tokio::time::sleep(REST).await;
    let (whole, own) = run_true(agent).await?;
    tokio::time::sleep(REST).await;
    let begun = Instant::now();
    agent.ping(PATIENCE).await?;
    Ok((whole, own, begun.elapsed()))
}

/// `true` in a guest that was left alone for a moment, its own time left out.
///
/// # Errors
/// When it does not end well.
pub async fn after_a_rest(agent: &AgentClient) -> Result<Duration> {
    tokio::time::sleep(REST).await;
    let (whole, own) = run_true(agent).await?;
    Ok(whole.saturating_sub(own))
}

/// `true`: all of its time, and its own as the guest measured it.
///
/// # Errors
/// When it does not end well.
pub async fn run_true(agent: &AgentClient) -> Result<(Duration, Duration)> {
    first_run::execute(agent, first_run::command(&["/bin/true"]), "").await
}
