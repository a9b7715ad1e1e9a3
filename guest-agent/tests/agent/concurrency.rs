//! Many executions at once over one connection.

use std::time::Duration;

use rekindle::agent::{AgentError, Event, ExecuteRequest, Outcome, Refusal};

use crate::agent;
use crate::harness::{SOON, marker, shell, until};

const MANY: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_executions_at_once_each_return_their_own_output() {
    let agent = agent!();
    let executions: Vec<_> = (0..MANY)
        .map(|i| {
            let client = agent.client.clone();
            let line = format!("read x; echo out {i} $x; echo err {i} >&2; exit {}", i % 256);
            tokio::spawn(async move {
                let request = ExecuteRequest { stdin: rekindle::agent::Stdin::Live.into(), ..shell(&line) };
                let mut execution = client.execute(request).await.expect("started");
                let mut stdin = execution.take_stdin().expect("live");
                // All of them are there before the first goes on.
                tokio::time::sleep(Duration::from_secs(2)).await;
                stdin.send(format!("in {i}\n").into()).await.expect("taken");
                let finished = execution.wait().await.expect("finished");
                assert_eq!(finished.stdout.text, format!("out {i} in {i}\n"));
                assert_eq!(finished.stderr.text, format!("err {i}\n"));
                assert_eq!(finished.outcome, Outcome::Exited((i % 256) as u8));
            })
        })
        .collect();
    for execution in executions {
        execution.await.expect("its own output came back");
    }
    agent.answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_half_of_two_hundred_leaves_no_process_behind_and_the_others_alone() {
    let agent = agent!();
    let doomed = marker();
    let mut running = Vec::new();
    for i in 0..MANY {
        let line = match i % 2 {
            0 => format!("sleep {doomed} & echo ready; sleep {doomed}"),
            _ => format!("echo ready; read x; echo {i}"),
        };
        let request =
            ExecuteRequest { stream: true, stdin: rekindle::agent::Stdin::Live.into(), ..shell(&line) };
        let mut execution = agent.client.execute(request).await.expect("started");
        let ready = execution.next().await.expect("no error");
        assert!(matches!(ready, Some(Event::Output { .. })), "{ready:?}");
        running.push(execution);
    }
    // At least the sleepers; whether a shell waits for the last one is the shell's own business.
    until("the doomed run", || agent.processes(&doomed).len() >= MANY).await;
    let (mut kept, mut cancelled) = (Vec::new(), Vec::new());
    for (i, execution) in running.into_iter().enumerate() {
        if i % 2 == 0 { cancelled.push(execution) } else { kept.push((i, execution)) }
    }
    drop(cancelled);
    agent.soon_gone(&doomed).await;
    for (i, execution) in kept {
        // Its input ends here, and with it the wait.
        let finished = execution.wait().await.expect("finished");
        assert_eq!(finished.stdout.text, format!("ready\n{i}\n"));
    }
    agent.answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_come_and_go_in_great_numbers_without_a_trace() {
    let agent = agent!();
    agent.run(shell("true")).await;
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", agent.pid())).expect("descriptors").count();
    let before = descriptors();
    for round in 0..5 {
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                let client = agent.client.clone();
                tokio::spawn(async move {
                    match i % 3 {
                        0 => drop(client.execute(shell("sleep 100")).await.expect("started")),
                        1 => drop(client.execute(shell("exit 1")).await.expect("started")),
                        _ => {
                            let finished = client.run(shell(&format!("echo {i}"))).await.expect("finished");
                            assert_eq!(finished.stdout.text, format!("{i}\n"), "round {round}");
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    }
    until("every descriptor is given back", || descriptors() <= before + 2).await;
    agent.answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_not_held_up_by_others_that_hang() {
    let agent = agent!();
    let mut hanging = Vec::new();
    for _ in 0..20 {
        hanging.push(agent.client.execute(shell("sleep 1000")).await.expect("started"));
    }
    for _ in 0..20 {
        // Live output nobody reads: the sender is stuck, the agent must not be.
        let request = ExecuteRequest { stream: true, ..shell("yes") };
        hanging.push(agent.client.execute(request).await.expect("started"));
    }
    let quick = tokio::time::timeout(SOON, agent.client.run(shell("echo quick"))).await.expect("no hang");
    assert_eq!(quick.expect("finished").stdout.text, "quick\n");
    drop(hanging);
    agent.answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_executions_are_refused_as_busy_and_the_session_lives() {
    let agent = agent!();
    let mut running = Vec::new();
    let refused = loop {
        match agent.client.execute(shell("sleep 1000")).await {
            Ok(execution) => running.push(execution),
            Err(error) => break error,
        }
        assert!(running.len() <= 300, "there is an end to it");
    };
    assert!(matches!(refused, AgentError::Busy) || refused.refusal() == Some(Refusal::Busy), "{refused:?}");
    assert!(running.len() >= MANY);
    agent.client.ping(SOON).await.expect("a full house still answers");
    drop(running);
    agent.answers().await;
}
