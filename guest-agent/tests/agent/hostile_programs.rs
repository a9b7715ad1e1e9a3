//! Programs that want to break out, hide, or take everything down with them: each ends as a typed outcome
//! within its time, and the agent still answers.

use std::time::{Duration, Instant};

use rekindle::agent::{ExecuteRequest, Language, Outcome};
use rekindle_test_support::skip;

use crate::agent;
use crate::harness::{SOON, Setup, code, marker, shell, within};

/// The time limit of what would otherwise go on for ever.
const LIMIT: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_fork_bomb_ends_at_its_time_limit_and_leaves_nothing() {
    // A user of its own: where only a limit per user can hold it, it must not starve other tests.
    let agent = agent!(Setup { user: "daemon", ..Setup::default() });
    if !agent.kills_everything() {
        skip!("without cgroups a fork bomb cannot be told from other processes");
    }
    let marker = marker();
    let bomb = format!("bomb() {{ sleep {marker} & bomb & bomb; }}; bomb 2>/dev/null &");
    let began = Instant::now();
    // The first process only watches, so that it does not itself die of what it has started.
    let request = ExecuteRequest { pids: 100, ..shell(&format!("{bomb} exec sleep {marker}")) };
    let finished = agent.run(within(LIMIT, request)).await;
    assert_eq!(finished.outcome, Outcome::TimedOut, "{finished:?}");
    assert!(began.elapsed() < LIMIT + SOON);
    agent.soon_gone(&marker).await;
    // One that does is an end like any other, and what it leaves behind is within its limit.
    let request = ExecuteRequest { pids: 100, ..shell(&format!("{bomb} bomb 2>/dev/null")) };
    let finished = agent.run(within(LIMIT, request)).await;
    println!("{:?}, {} left", finished.outcome, agent.processes(&marker).len());
    assert!(agent.processes(&marker).len() <= 100);
    agent.answers().await;
}

#[tokio::test]
async fn a_process_limit_holds() {
    let agent = agent!(Setup { user: "games", ..Setup::default() });
    let marker = marker();
    // The first process only watches: a shell ends when it cannot start another.
    let line = format!("(for i in $(seq 100); do sleep {marker} & done 2>/dev/null) & exec sleep 1000");
    let request = ExecuteRequest { pids: 20, stream: true, ..shell(&line) };
    let mut execution = agent.client.execute(request).await.expect("started");
    let mut most = 0;
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        most = most.max(agent.processes(&format!("sleep {marker}")).len());
        let event = tokio::time::timeout(Duration::from_millis(50), execution.next()).await;
        assert!(event.is_err(), "it runs on: {event:?}");
    }
    assert!(most <= 20, "{most} processes at once");
    assert!(most > 0, "the limit leaves room for some");
    drop(execution);
    agent.soon_gone(&marker).await;
    agent.answers().await;
}

#[tokio::test]
async fn a_memory_bomb_ends_as_out_of_memory_and_takes_nobody_along() {
    let agent = agent!();
    if !agent.client.hello().capabilities.memory_limits {
        skip!("there is no memory controller for the agent's cgroups here");
    }
    if !agent.has("python3").await {
        skip!("there is no python3 here");
    }
    let innocent = agent.client.execute(shell("sleep 5; echo innocent")).await.expect("started");
    let bomb = "x = []\nwhile True: x.append(bytearray(10**7))";
    let request = ExecuteRequest { memory_bytes: 100 << 20, ..code(Language::Python, bomb) };
    let finished = agent.run(request).await;
    assert_eq!(finished.outcome, Outcome::OutOfMemory, "{finished:?}");
    let peak = finished.usage.peak_memory_bytes.expect("it is measured");
    assert!((50 << 20..=110 << 20).contains(&peak), "{peak}");
    assert_eq!(innocent.wait().await.expect("finished").stdout.text, "innocent\n");
    // The same by a child, while its parent waits for it.
    let request = ExecuteRequest {
        memory_bytes: 100 << 20,
        ..shell("python3 -c 'x = bytearray(10**9)'; echo survived")
    };
    assert_eq!(agent.run(request).await.outcome, Outcome::OutOfMemory, "the group dies together");
    agent.answers().await;
}

#[tokio::test]
async fn killing_everything_in_sight_kills_nothing_of_the_agents() {
    // In a process namespace of its own: as the same user it would reach the programs of other tests.
    let unshare = vec!["--pid", "--fork", "--mount-proc", "--kill-child"];
    let agent = agent!(Setup { unshare, ..Setup::default() });
    let finished = agent.run(shell("kill -9 -1; echo still here; kill -9 $$")).await;
    assert!(matches!(finished.outcome, Outcome::Signaled(9) | Outcome::Exited(_)), "{finished:?}");
    let finished = agent.run(shell("kill -9 1 2>&1; kill -15 1; kill -9 $PPID; echo tried")).await;
    assert!(finished.stdout.text.contains("tried"), "{finished:?}");
    agent.answers().await;
}

#[tokio::test]
async fn closing_every_stream_and_sleeping_is_still_running() {
    let agent = agent!();
    let began = Instant::now();
    let finished = agent.run(within(LIMIT, shell("exec <&- >&- 2>&-; sleep 1000"))).await;
    assert_eq!(finished.outcome, Outcome::TimedOut);
    assert!(began.elapsed() >= LIMIT, "closed streams are not the end");
    let finished = agent.run(shell("echo before; exec >&- 2>&-; sleep 0.5; exit 7")).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(7), "before\n"));
}

#[tokio::test]
async fn a_daemon_does_not_hold_up_the_result_and_dies_with_a_cancelled_call() {
    let agent = agent!();
    // Forked twice, in a session of its own, with its streams inherited.
    let daemon = |marker: &str| format!("(setsid sh -c 'sleep {marker} & sleep {marker}' &) &");
    let lasting = marker();
    let began = Instant::now();
    let finished = agent.run(shell(&format!("{} echo started", daemon(&lasting)))).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(0), "started\n"));
    assert!(began.elapsed() < SOON);
    if !agent.kills_everything() {
        skip!("without cgroups a session of its own escapes");
    }
    let doomed = marker();
    let line = format!("{} echo started; sleep 1000", daemon(&doomed));
    let finished = agent.run(within(LIMIT, shell(&line))).await;
    assert_eq!(finished.outcome, Outcome::TimedOut);
    agent.soon_gone(&doomed).await;
    assert!(!agent.processes(&lasting).is_empty(), "what another call started in good order goes on");
    agent.answers().await;
}

#[tokio::test]
async fn children_in_sessions_of_their_own_die_at_the_time_limit_and_on_cancel() {
    let agent = agent!();
    if !agent.kills_everything() {
        skip!("without cgroups a session of its own escapes");
    }
    for cancel in [false, true] {
        let marker = marker();
        let line = format!(
            "setsid sleep {marker} & setsid setsid sh -c 'trap \"\" TERM HUP; sleep {marker}' & (sleep {marker} &) ; echo ready; sleep {marker}"
        );
        let request = ExecuteRequest { stream: true, ..within(LIMIT, shell(&line)) };
        let mut execution = agent.client.execute(request).await.expect("started");
        assert!(matches!(execution.next().await, Ok(Some(rekindle::agent::Event::Output { .. }))));
        assert!(!agent.processes(&marker).is_empty());
        if cancel {
            drop(execution);
        } else {
            assert_eq!(execution.wait().await.expect("finished").outcome, Outcome::TimedOut);
        }
        agent.soon_gone(&marker).await;
    }
    agent.answers().await;
}

#[tokio::test]
async fn a_stopped_program_still_ends_at_its_time_limit() {
    let agent = agent!();
    let finished = agent.run(within(Duration::from_millis(500), shell("kill -STOP $$; echo never"))).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::TimedOut, ""));
    agent.answers().await;
}

#[tokio::test]
async fn a_program_that_fills_every_descriptor_and_every_pipe_hurts_only_itself() {
    let agent = agent!();
    if !agent.has("python3").await {
        skip!("there is no python3 here");
    }
    let hoard = "import os\nfds = []\ntry:\n  while True: fds.extend(os.pipe())\nexcept OSError as e: print('full', len(fds) > 10)";
    let finished = agent.run(code(Language::Python, hoard)).await;
    assert_eq!(finished.stdout.text, "full True\n");
    agent.answers().await;
}

#[tokio::test]
async fn the_agents_files_cannot_be_reached_from_a_program() {
    let agent = agent!();
    let parent = agent.pid();
    for what in ["environ", "mem", "maps", "fd/3", "root/etc/shadow", "cwd/x"] {
        let finished = agent.run(shell(&format!("cat /proc/{parent}/{what} | head -c 1000"))).await;
        assert_eq!(finished.stdout.text, "", "{what}");
    }
    let open = agent.shell("ls /proc/self/fd | tr '\\n' ' '").await;
    assert_eq!(open, "0 1 2 3 ", "nothing is inherited but the three streams; 3 is the listing itself");
}
