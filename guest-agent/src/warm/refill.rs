//! Starts what is missing, one thing at a time.

use std::io;
use std::sync::Arc;

use rekindle_protocol::wire::Language;

use crate::agent::Agent;
use crate::warm::forker::Forker;
use crate::warm::node;
use crate::warm::pool::{Kind, Missing};
use crate::warm::prepare::prepare;

/// Starts what is missing in the background, in the group that is last in line for the processor.
pub fn refill(agent: &Arc<Agent>) {
    if agent.warm.missing().is_none() {
        return;
    }
    // Held from here on, so that whoever waits for the interpreters cannot come before them.
    let held = agent.warm.filling.clone().try_lock_owned();
    let agent = agent.clone();
    tokio::spawn(async move {
        let _one_at_a_time = match held {
            Ok(held) => held,
            Err(_) => agent.warm.filling.clone().lock_owned().await,
        };
        if let Err(error) = fill_alone(&agent).await {
            eprintln!("rekindle-agent: an interpreter cannot be kept warm: {error}");
        }
    });
}

/// Starts what is missing until nothing is.
///
/// # Errors
/// When something does not start; what was missing stays so.
pub async fn fill(agent: &Arc<Agent>) -> io::Result<()> {
    let _one_at_a_time = agent.warm.filling.lock().await;
    fill_alone(agent).await
}

/// The same, for whoever holds the lock.
async fn fill_alone(agent: &Arc<Agent>) -> io::Result<()> {
    while let Some(missing) = agent.warm.missing() {
        match missing {
            Missing::Forker(number, modules) => {
                agent.warm.add_forker(number, Forker::start(agent, &modules).await?);
            }
            Missing::Copy(number, forker) => {
                let _copying = agent.warm.copying.lock().await;
                match forker.park(agent).await {
                    Ok(copy) => {
                        let copy = prepare(agent, Language::Python, copy).await?;
                        agent.warm.add(Kind::Python(number), copy);
                    }
                    Err(error) => {
                        // The next round starts another one.
                        agent.warm.lose_forker(number);
                        eprintln!("rekindle-agent: the Python forker is gone: {error}");
                    }
                }
            }
            Missing::Node => {
                let parked = node::park(agent).await?;
                agent.warm.add(Kind::Node, prepare(agent, Language::Node, parked).await?);
            }
        }
    }
    Ok(())
}
