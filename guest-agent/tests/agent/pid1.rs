//! The agent as the first process of its namespace: it inherits every orphan and collects each of them.

use rekindle_test_support::wait::{until, until_answer};

use crate::agent;
use crate::harness::{Setup, marker, shell};

fn first() -> Setup {
    let unshare = vec!["--pid", "--fork", "--mount-proc", "--kill-child"];
    Setup { unshare, ..Setup::default() }
}

#[tokio::test]
async fn it_is_the_first_process_and_runs_programs() {
    let agent = agent!(first());
    assert!(agent.shell("tr '\\0' ' ' < /proc/1/cmdline").await.contains("rekindle-agent"));
    agent.answers().await;
}

#[tokio::test]
async fn orphans_are_collected() {
    let agent = agent!(first());
    // Forty processes whose parents are gone before they end.
    let nap = format!("sleep 0.2{}", marker());
    agent.shell(&format!("for i in $(seq 40); do (sh -c '{nap}' &) ; done")).await;
    agent.shell(&format!("(setsid sh -c '{nap}; exit 3' &) &")).await;
    let zombies = "n=0; for s in /proc/[0-9]*/stat; do read -r line < $s 2>/dev/null || continue; \
                   case ${line##*) } in Z*) n=$((n+1));; esac; done; echo $n";
    until("all have ended", || agent.processes(&nap).is_empty()).await;
    until_answer("all are collected", async || (agent.shell(zombies).await == "0\n").then_some(())).await;
    agent.answers().await;
}

#[tokio::test]
async fn it_survives_every_signal_a_program_can_send_it() {
    let agent = agent!(first());
    for user in ["", "root"] {
        for signal in ["HUP", "INT", "TERM", "USR1", "PIPE", "CHLD", "KILL"] {
            let request = rekindle::agent::ExecuteRequest {
                user: user.to_owned(),
                ..shell(&format!("kill -{signal} 1 2>/dev/null; true"))
            };
            agent.run(request).await;
        }
    }
    agent.answers().await;
}

#[tokio::test]
async fn a_poweroff_is_acknowledged_before_the_agent_goes() {
    let mut agent = agent!();
    agent.client.poweroff(crate::harness::SOON).await.expect("acknowledged");
    tokio::time::timeout(crate::harness::SOON, agent.client.closed()).await.expect("the session ends");
    until("the agent is gone", || !agent.is_running()).await;
}
