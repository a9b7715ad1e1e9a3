//! The agent as the first process of its namespace: it inherits every orphan and collects each of them.

use std::time::Duration;

use crate::agent;
use crate::harness::{Setup, shell, until};

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
    agent.shell("for i in $(seq 40); do (sh -c 'sleep 0.2' &) ; done").await;
    agent.shell("(setsid sh -c 'sleep 0.1; exit 3' &) &").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let zombies = "n=0; for s in /proc/[0-9]*/stat; do read -r line < $s 2>/dev/null || continue; \
                   case ${line##*) } in Z*) n=$((n+1));; esac; done; echo $n";
    let deadline = std::time::Instant::now() + crate::harness::SOON;
    loop {
        let left = agent.shell(zombies).await;
        if left == "0\n" {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{left} zombies are never collected");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
