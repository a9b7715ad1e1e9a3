//! Many executions at once over one connection.

use std::sync::Arc;

use rekindle::agent::{AgentError, Event, ExecuteRequest, Outcome, Refusal, UploadOptions};
use rekindle_protocol::limits::MAX_EXECUTIONS;
use rekindle_test_support::wait::{until, until_answer};
use tokio::sync::Barrier;

use crate::agent;
use crate::harness::{Agent, PATIENCE, SOON, Setup, marker, path, shell};

const MANY: usize = 200;
/// Descriptors that an agent has of a group, at most: its directory, its processes, its processor time, its memory.
const SPARE_GROUP: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_executions_at_once_each_return_their_own_output() {
    let agent = agent!();
    let all_there = Arc::new(Barrier::new(MANY));
    let executions: Vec<_> = (0..MANY)
        .map(|i| {
            let (client, all_there) = (agent.client.clone(), all_there.clone());
            let line = format!("read x; echo out {i} $x; echo err {i} >&2; exit {}", i % 256);
            tokio::spawn(async move {
                let request = ExecuteRequest { stdin: rekindle::agent::Stdin::Live.into(), ..shell(&line) };
                let mut execution = client.execute(request).await.expect("started");
                let mut stdin = execution.take_stdin().expect("live");
                all_there.wait().await;
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
async fn as_many_executions_as_are_promised_run_at_once_and_one_more_is_refused() {
    // As a guest's first process has them.
    let before = "ulimit -Sn 1024 && ulimit -Hn 4096";
    let agent = agent!(Setup { before, ..Setup::default() });
    let mut running = Vec::new();
    for i in 0..MAX_EXECUTIONS {
        let line = "echo $(ulimit -Sn) $(ulimit -Hn); read x; echo $x";
        let request =
            ExecuteRequest { stream: true, stdin: rekindle::agent::Stdin::Live.into(), ..shell(line) };
        let mut execution =
            agent.client.execute(request).await.unwrap_or_else(|error| panic!("{i}: {error:?}"));
        let ready = execution.next().await.expect("no error");
        let Some(Event::Output { data, .. }) = ready else { panic!("{ready:?}") };
        assert_eq!(data, "1024 4096\n", "what the agent needs is not the program's");
        running.push(execution);
    }
    let refused = agent.client.execute(shell("true")).await.expect_err("one too many");
    assert_eq!(refused.refusal(), Some(Refusal::Busy));
    upload_and_check(&agent).await;
    for (i, mut execution) in running.into_iter().enumerate() {
        let mut stdin = execution.take_stdin().expect("live");
        stdin.send(format!("{i}\n").into()).await.expect("taken");
        let finished = execution.wait().await.expect("finished");
        assert_eq!(finished.stdout.text, format!("1024 4096\n{i}\n"));
    }
    agent.answers().await;
}

/// A full house has room for files.
async fn upload_and_check(agent: &Agent) {
    let options = UploadOptions::default();
    agent.client.upload_bytes(&path("file"), options, b"x", PATIENCE).await.expect("uploaded");
    agent.client.stat(&path("file"), false, SOON).await.expect("there");
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
    // The group that is made for the next execution, beside the end of the first, may come after this look.
    let most = descriptors() + SPARE_GROUP + 2;
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
        // Those given up still count among the executions under way until their programs have been killed.
        until("every descriptor is given back", || descriptors() <= most).await;
    }
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
async fn whether_a_program_runs_can_be_asked_while_nobody_reads_its_output() {
    let agent = agent!();
    let request = ExecuteRequest { stream: true, ..shell("yes") };
    let unread = agent.client.execute(request).await.expect("started");
    let number = unread.started().execution;
    assert!(agent.client.runs(number, SOON).await.expect("told"));
    agent.client.signal(number, 9, true, SOON).await.expect("killed");
    until_answer("a killed program does not run", async || {
        (!agent.client.runs(number, SOON).await.expect("told")).then_some(())
    })
    .await;
    let finished = unread.wait().await.expect("what it wrote and how it ended is still there");
    assert_eq!(finished.outcome, Outcome::Signaled(9));
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
