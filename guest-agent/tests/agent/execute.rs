//! What an execution is: programs of every kind, their input, their place and their end.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rekindle::agent::{
    DiagnosisKind, Event, ExecuteRequest, Language, Outcome, OutputStream, Refusal, RestoreRequest, Stdin,
    TerminalSize,
};
use rekindle_test_support::skip;

use crate::agent;
use crate::harness::{SOON, Setup, code, command, marker, restore_request, shell, var, within};

/// Far less than any program below would run by itself.
const BRIEF: Duration = Duration::from_millis(400);

#[tokio::test]
async fn a_command_gets_its_arguments_untouched() {
    let agent = agent!();
    let arguments = ["a b", "", "$HOME", "'\"\\", "новый", "*"];
    let finished = agent.run(command(&[&["printf", "[%s]"], &arguments[..]].concat())).await;
    assert_eq!(finished.outcome, Outcome::Exited(0));
    assert_eq!(finished.stdout.text, arguments.map(|word| format!("[{word}]")).concat());
    assert!(!finished.stdout.truncated);
    assert_eq!(finished.stderr.text, "");
}

#[tokio::test]
async fn a_line_of_shell_is_one() {
    let agent = agent!();
    let finished = agent.run(shell("echo out; echo err >&2; false || exit 3")).await;
    assert_eq!(finished.outcome, Outcome::Exited(3));
    assert_eq!((&finished.stdout.text[..], &finished.stderr.text[..]), ("out\n", "err\n"));
}

#[tokio::test]
async fn the_start_of_an_unannounced_program_is_not_told() {
    let agent = agent!();
    let request = ExecuteRequest { unannounced: true, ..shell("echo out") };
    let error = agent.client.execute(request).await.expect_err("only the result comes");
    assert_eq!(error.to_string(), "the agent broke the protocol in execute: an unexpected result reply");
}

#[tokio::test]
async fn python_runs_code() {
    let agent = agent!();
    if !agent.has("python3").await {
        skip!("there is no python3 here");
    }
    let finished = agent.run(code(Language::Python, "import sys\nprint('é😀')\nsys.exit(4)")).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(4), "é😀\n"));
}

#[tokio::test]
async fn node_runs_code() {
    let agent = agent!();
    if !agent.has("node").await {
        skip!("there is no node here");
    }
    let finished =
        agent.run(code(Language::Node, "console.log([1, 2].map(x => x * 2).join()); process.exit(5)")).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(5), "2,4\n"));
}

#[tokio::test]
async fn bash_runs_code() {
    let agent = agent!();
    if !agent.has("bash").await {
        skip!("there is no bash here");
    }
    let finished = agent.run(code(Language::Bash, "a=(x y z); echo ${#a[@]}; exit 6")).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(6), "3\n"));
}

#[tokio::test]
async fn every_exit_code_and_every_deadly_signal_is_told() {
    let agent = agent!();
    for code in [0u8, 1, 2, 126, 127, 128, 137, 255] {
        assert_eq!(agent.run(shell(&format!("exit {code}"))).await.outcome, Outcome::Exited(code));
    }
    for signal in [1u8, 2, 3, 6, 9, 11, 15] {
        let finished = agent.run(shell(&format!("kill -{signal} $$; sleep 100"))).await;
        assert_eq!(finished.outcome, Outcome::Signaled(signal));
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_clear_error() {
    let agent = agent!();
    let refused = async |request: ExecuteRequest| {
        agent.client.run(request).await.expect_err("it cannot run").refusal().expect("a refusal")
    };
    assert_eq!(refused(command(&["no-such-program"])).await, Refusal::NotFound);
    assert_eq!(refused(command(&["/etc/passwd"])).await, Refusal::PermissionDenied);
    assert_eq!(refused(command(&[])).await, Refusal::InvalidArgument);
    assert_eq!(refused(command(&["a\0b"])).await, Refusal::InvalidArgument);
    assert_eq!(refused(ExecuteRequest::default()).await, Refusal::InvalidArgument);
    let lost = ExecuteRequest { cwd: "/no/such/place".into(), ..shell("true") };
    assert_eq!(refused(lost).await, Refusal::NotFound);
    let stranger = ExecuteRequest { user: "no-such-user".to_owned(), ..shell("true") };
    assert_eq!(refused(stranger).await, Refusal::NotFound);
    let unnamed = ExecuteRequest { env: vec![var("A=B", "c")], ..shell("true") };
    assert_eq!(refused(unnamed).await, Refusal::InvalidArgument);
    assert_eq!(refused(code(Language::Unspecified, "x")).await, Refusal::InvalidArgument);
    assert_eq!(refused(shell(&"x".repeat(200 * 1024))).await, Refusal::TooLarge);
    agent.answers().await;
}

#[tokio::test]
async fn input_is_empty_whole_or_live() {
    let agent = agent!();
    assert_eq!(agent.run(shell("wc -c")).await.stdout.text.trim(), "0");

    let bytes: Vec<u8> = (0..=255).cycle().take(500_000).collect();
    let whole =
        ExecuteRequest { stdin: Stdin::Whole.into(), stdin_data: bytes.clone().into(), ..shell("sha256sum") };
    let expected = sum(&bytes);
    assert!(agent.run(whole).await.stdout.text.starts_with(&expected));

    let live = ExecuteRequest {
        stdin: Stdin::Live.into(),
        stream: true,
        ..shell("while read x; do echo got $x; done")
    };
    let mut execution = agent.client.execute(live).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    for word in ["one", "two"] {
        stdin.send(Bytes::from(format!("{word}\n"))).await.expect("taken");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            match execution.next().await.expect("no error") {
                Some(Event::Output { stream: OutputStream::Stdout, data }) => answer.extend_from_slice(&data),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(answer, format!("got {word}\n").as_bytes(), "the answer comes while the program runs");
    }
    stdin.eof();
    let finished = execution.wait().await.expect("finished");
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(0), "got one\ngot two\n"));
}

#[tokio::test]
async fn much_input_and_much_output_do_not_wait_for_each_other() {
    let agent = agent!();
    let request = ExecuteRequest { stdin: Stdin::Live.into(), stream: true, ..command(&["cat"]) };
    let mut execution = agent.client.execute(request).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    let content: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
    let sent = content.clone();
    let writing = tokio::spawn(async move {
        stdin.send(sent.into()).await?;
        stdin.eof();
        Ok::<_, rekindle::agent::StdinClosed>(())
    });
    let mut back = Vec::new();
    loop {
        match execution.next().await.expect("no error").expect("not over") {
            Event::Output { data, .. } => back.extend_from_slice(&data),
            Event::Finished(finished) => {
                assert_eq!(finished.outcome, Outcome::Exited(0));
                assert_eq!(finished.stdout.total_bytes, content.len() as u64);
                break;
            }
        }
    }
    writing.await.expect("no panic").expect("all was taken");
    assert!(back == content, "{} bytes came back of {}", back.len(), content.len());
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_can_still_end() {
    let agent = agent!();
    let request = ExecuteRequest { stdin: Stdin::Live.into(), ..shell("exec 0<&-; echo done") };
    let mut execution = agent.client.execute(request).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    let writing = tokio::spawn(async move { while stdin.send(vec![0; 65536].into()).await.is_ok() {} });
    let finished = execution.wait().await.expect("finished");
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(0), "done\n"));
    tokio::time::timeout(SOON, writing).await.expect("the writer is told").expect("no panic");
}

#[tokio::test]
async fn a_terminal_has_the_size_that_was_asked_for_and_can_be_resized() {
    let agent = agent!();
    let terminal = Some(TerminalSize { rows: 31, cols: 97 });
    let line = "test -t 0 && test -t 1 && test -t 2 && tty >/dev/null && stty size; echo $TERM";
    let finished = agent.run(ExecuteRequest { terminal, ..shell(line) }).await;
    assert_eq!(finished.stdout.text.replace('\r', ""), "31 97\nxterm-256color\n", "{finished:?}");
    assert_eq!(finished.stderr.text, "", "a terminal has one stream");

    let line = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let request = ExecuteRequest { terminal, stream: true, ..shell(line) };
    let mut execution = agent.client.execute(request).await.expect("started");
    let ready = execution.next().await.expect("no error");
    assert!(matches!(ready, Some(Event::Output { .. })), "{ready:?}");
    let size = TerminalSize { rows: 50, cols: 132 };
    agent.client.resize(execution.started().execution, size, SOON).await.expect("resized");
    let finished = execution.wait().await.expect("finished");
    assert_eq!(finished.stdout.text.replace('\r', ""), "ready\n50 132\n");

    let refused = agent.run(shell("sleep 0")).await;
    assert_eq!(refused.outcome, Outcome::Exited(0));
    let gone = agent.client.resize(execution_that_ended(&agent).await, size, SOON).await;
    assert_eq!(gone.expect_err("it is gone").refusal(), Some(Refusal::NotFound));
}

async fn execution_that_ended(agent: &crate::harness::Agent) -> u64 {
    let execution = agent.client.execute(shell("true")).await.expect("started");
    let id = execution.started().execution;
    execution.wait().await.expect("finished");
    id
}

#[tokio::test]
async fn typing_on_a_terminal_reaches_the_program() {
    let agent = agent!();
    let terminal = Some(TerminalSize { rows: 24, cols: 80 });
    let line = "trap 'exit 42' INT; stty -echo; echo ok; read a; echo \"<$a>\"; while :; do sleep 0.05; done";
    let request = ExecuteRequest { terminal, stdin: Stdin::Live.into(), ..shell(line) };
    let mut execution =
        agent.client.execute(ExecuteRequest { stream: true, ..request }).await.expect("started");
    let mut stdin = execution.take_stdin().expect("live");
    let mut seen = String::new();
    while !seen.contains("ok") {
        match execution.next().await.expect("no error").expect("not over") {
            Event::Output { data, .. } => seen.push_str(&String::from_utf8_lossy(&data)),
            Event::Finished(finished) => panic!("{finished:?}"),
        }
    }
    stdin.send("hello\n".into()).await.expect("typed");
    while !seen.contains("<hello>") {
        match execution.next().await.expect("no error").expect("not over") {
            Event::Output { data, .. } => seen.push_str(&String::from_utf8_lossy(&data)),
            Event::Finished(finished) => panic!("{finished:?}"),
        }
    }
    // Control-C goes to whatever runs in front.
    stdin.send("\u{3}".into()).await.expect("typed");
    let finished = execution.wait().await.expect("finished");
    assert_eq!(finished.outcome, Outcome::Exited(42));
}

#[tokio::test]
async fn signals_reach_the_first_process_or_everyone() {
    let agent = agent!();
    let line = "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let mut execution =
        agent.client.execute(ExecuteRequest { stream: true, ..shell(line) }).await.expect("started");
    assert!(matches!(execution.next().await, Ok(Some(Event::Output { .. }))));
    agent.client.signal(execution.started().execution, 10, false, SOON).await.expect("sent");
    let finished = execution.wait().await.expect("finished");
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(9), "ready\ncaught\n"));

    let marker = marker();
    let line = format!("sleep {marker} & sleep {marker} & echo ready; wait");
    let mut execution =
        agent.client.execute(ExecuteRequest { stream: true, ..shell(&line) }).await.expect("started");
    assert!(matches!(execution.next().await, Ok(Some(Event::Output { .. }))));
    agent.client.signal(execution.started().execution, 15, true, SOON).await.expect("sent");
    let finished = execution.wait().await.expect("finished");
    assert_eq!(finished.outcome, Outcome::Signaled(15));
    agent.soon_gone(&marker).await;

    let unknown = agent.client.signal(u64::MAX, 15, false, SOON).await.expect_err("there is none");
    assert_eq!(unknown.refusal(), Some(Refusal::NotFound));
    for signal in [65, 255] {
        let wrong = agent.client.signal(1, signal, false, SOON).await.expect_err("no signal");
        assert_eq!(wrong.refusal(), Some(Refusal::InvalidArgument));
    }
}

#[tokio::test]
async fn variables_of_the_call_override_those_of_the_sandbox_and_both_the_defaults() {
    let restore = RestoreRequest {
        env: vec![var("A", "sandbox"), var("B", "sandbox"), var("LANG", "xx")],
        ..restore_request()
    };
    let agent = agent!(Setup { restore, ..Setup::default() });
    let request = ExecuteRequest {
        env: vec![var("B", "call"), var("C", "a\nb=c")],
        ..shell("echo $A $B $LANG; echo \"$C\"")
    };
    assert_eq!(agent.run(request).await.stdout.text, "sandbox call xx\na\nb=c\n");
    assert_eq!(agent.shell("echo $A $B").await, "sandbox sandbox\n", "a call leaves nothing behind");
}

#[tokio::test]
async fn a_program_runs_as_the_user_in_its_home_or_where_it_was_told() {
    let agent = agent!();
    let home = agent.shell("pwd").await;
    assert_eq!(home, agent.shell("echo $HOME").await);
    assert_eq!(agent.shell("id -u").await.trim(), agent.uid.to_string());
    let elsewhere = ExecuteRequest { cwd: "/usr".into(), ..shell("pwd") };
    assert_eq!(agent.run(elsewhere).await.stdout.text, "/usr\n");
    agent.shell("mkdir -p sub").await;
    let relative = ExecuteRequest { cwd: "sub".into(), ..shell("pwd") };
    assert_eq!(agent.run(relative).await.stdout.text, format!("{}/sub\n", home.trim_end()));
    let root = ExecuteRequest { user: "root".to_owned(), ..shell("id -u; echo $USER") };
    assert_eq!(agent.run(root).await.stdout.text, "0\nroot\n");
}

#[tokio::test]
async fn nothing_but_files_is_left_for_the_next_execution() {
    let agent = agent!();
    agent.shell("X=1; export X; cd /; umask 077; ulimit -n 20; echo kept > ~/file").await;
    assert_eq!(agent.shell("echo \"[$X]\"; umask; cat ~/file").await, "[]\n0022\nkept\n");
}

#[tokio::test]
async fn a_time_limit_ends_the_program_and_all_its_children() {
    let agent = agent!();
    let marker = marker();
    let line = format!("echo before; sleep {marker} & (sleep {marker}; echo never) & sleep {marker}");
    let began = Instant::now();
    let finished = agent.run(within(BRIEF, shell(&line))).await;
    assert_eq!(finished.outcome, Outcome::TimedOut);
    assert_eq!(finished.stdout.text, "before\n", "what was printed is not lost");
    assert!(began.elapsed() >= BRIEF && began.elapsed() < SOON);
    agent.soon_gone(&marker).await;
}

#[tokio::test]
async fn a_program_that_ignores_every_signal_still_ends_at_its_time_limit() {
    let agent = agent!();
    let line = "trap '' HUP INT TERM QUIT USR1 PIPE; while :; do sleep 0.1; done";
    assert_eq!(agent.run(within(BRIEF, shell(line))).await.outcome, Outcome::TimedOut);
}

#[tokio::test]
async fn dropping_an_execution_kills_everything_it_started() {
    let agent = agent!();
    let marker = marker();
    let line = format!("sleep {marker} & sleep {marker} & echo ready; wait");
    let mut execution =
        agent.client.execute(ExecuteRequest { stream: true, ..shell(&line) }).await.expect("started");
    assert!(matches!(execution.next().await, Ok(Some(Event::Output { .. }))));
    assert!(agent.processes(&marker).len() >= 2);
    drop(execution);
    agent.soon_gone(&marker).await;
    agent.answers().await;
}

#[tokio::test]
async fn a_background_child_that_holds_the_output_open_does_not_hold_up_the_result() {
    let agent = agent!();
    let marker = marker();
    let began = Instant::now();
    let finished = agent.run(shell(&format!("sleep {marker} & echo done"))).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(0), "done\n"));
    assert!(began.elapsed() < SOON);
}

#[tokio::test]
async fn a_background_child_that_floods_the_output_does_not_hold_up_the_result() {
    let agent = agent!();
    let limit = Duration::from_secs(60);
    let crowd = "for i in 1 2 3 4 5 6 7 8; do cat /dev/zero & cat /dev/zero >&2 & done; sleep 0.2; echo done";
    for line in ["yes & echo done", "yes >&2 & yes & sleep 0.3; echo done", crowd] {
        let began = Instant::now();
        let finished = agent.run(within(limit, shell(line))).await;
        assert_eq!(finished.outcome, Outcome::Exited(0), "{line}");
        assert!(began.elapsed() < limit, "{line}");
        agent.client.ping(SOON).await.expect("it answers");
    }
    // A caller that reads slowly gives the flood all the time it needs to be there again.
    let request = ExecuteRequest { stream: true, ..within(limit, shell("yes & sleep 0.2")) };
    let mut execution = agent.client.execute(request).await.expect("started");
    let began = Instant::now();
    let outcome = loop {
        match execution.next().await.expect("no error").expect("not over") {
            Event::Finished(finished) => break finished.outcome,
            Event::Output { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        assert!(began.elapsed() < limit, "the result never comes");
    };
    assert_eq!(outcome, Outcome::Exited(0));
}

#[tokio::test]
async fn live_output_is_every_byte_in_order_on_its_own_stream() {
    let agent = agent!();
    let line = "for i in 1 2 3; do printf 'o\\377%s' $i; printf 'e\\000%s' $i >&2; sleep 0.05; done";
    let mut execution =
        agent.client.execute(ExecuteRequest { stream: true, ..shell(line) }).await.expect("started");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let finished = loop {
        match execution.next().await.expect("no error").expect("not over") {
            Event::Output { stream: OutputStream::Stdout, data } => out.extend_from_slice(&data),
            Event::Output { stream: OutputStream::Stderr, data } => err.extend_from_slice(&data),
            Event::Finished(finished) => break finished,
        }
    };
    assert_eq!(out, b"o\xff1o\xff2o\xff3");
    assert_eq!(err, b"e\x001e\x002e\x003");
    assert_eq!(finished.stdout.text, "o\u{fffd}1o\u{fffd}2o\u{fffd}3");
}

#[tokio::test]
async fn usage_tells_of_work_and_of_waiting() {
    let agent = agent!();
    let waited = agent.run(shell("sleep 0.3")).await.usage;
    assert!(waited.wall_micros >= 300_000, "{waited:?}");
    let worked = agent.run(shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).await.usage;
    assert!(worked.cpu_micros > 10_000 && worked.cpu_micros > 2 * waited.cpu_micros, "{worked:?} {waited:?}");
    let child =
        agent.run(shell("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done' & wait")).await.usage;
    assert!(child.cpu_micros > 10_000, "children count too: {child:?}");
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_not_the_next_ones_work() {
    let agent = agent!();
    let spinning = "(while :; do :; done) >/dev/null 2>&1 & sleep 0.5";
    for _ in 0..3 {
        let left = agent.run(shell(spinning)).await.usage;
        let next = agent.run(shell("true")).await.usage;
        assert!(next.cpu_micros < left.cpu_micros / 2, "{next:?} after {left:?}");
    }
}

#[tokio::test]
async fn common_failures_get_a_category() {
    let agent = agent!();
    let missing = agent.run(shell("frobnicate")).await;
    let diagnosis = missing.diagnosis.expect("a diagnosis");
    assert_eq!((diagnosis.kind, &diagnosis.subject[..]), (DiagnosisKind::MissingCommand, "frobnicate"));
    assert_eq!(agent.run(shell("exit 1")).await.diagnosis, None);
    if !agent.has("python3").await {
        skip!("there is no python3 here");
    }
    let diagnose = async |source: &str| {
        let finished = agent.run(code(Language::Python, source)).await;
        let diagnosis = finished.diagnosis.unwrap_or_else(|| panic!("{}", finished.stderr.text));
        (diagnosis.kind, diagnosis.subject)
    };
    let module = diagnose("import left_pad").await;
    assert_eq!(module, (DiagnosisKind::MissingModule, "left_pad".to_owned()));
    assert_eq!(diagnose("if").await.0, DiagnosisKind::SyntaxError);
    assert_eq!(diagnose("1/0").await, (DiagnosisKind::UncaughtException, "ZeroDivisionError".to_owned()));
}

fn sum(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says whether the process leads a session or a process group, and whether a session that it begins is its own.
const PLACE: &str = "import os\nprint(os.getpid() == os.getsid(0), os.getpid() == os.getpgrp())";

#[tokio::test]
async fn a_program_leads_nothing_and_setsid_behaves_as_in_a_shell() {
    let agent = agent!();
    if !agent.has("setsid").await {
        skip!("there is no setsid here");
    }
    // One that led its process group would be left for a child, and its end would come at once, with 0.
    let finished = agent.run(command(&["setsid", "sh", "-c", "echo inside; exit 3"])).await;
    assert_eq!((finished.outcome, &finished.stdout.text[..]), (Outcome::Exited(3), "inside\n"));
    let finished = agent.run(shell("exec setsid sh -c 'sleep 0.2; exit 4'")).await;
    assert_eq!(finished.outcome, Outcome::Exited(4));
    if agent.has("python3").await {
        let finished = agent.run(command(&["python3", "-c", PLACE])).await;
        assert_eq!(finished.stdout.text, "False False\n");
        let terminal = Some(TerminalSize { rows: 24, cols: 80 });
        let finished = agent.run(ExecuteRequest { terminal, ..command(&["python3", "-c", PLACE]) }).await;
        assert_eq!(finished.stdout.text, "True True\r\n", "with a terminal it leads both");
    }
}

#[tokio::test]
async fn a_signal_to_its_own_process_group_reaches_nobody_else() {
    let mut agent = agent!();
    let other = agent.client.execute(shell("sleep 0.5; kill -9 0")).await.expect("started");
    let bystander = agent.client.execute(shell("while :; do sleep 0.05; done")).await.expect("started");
    assert_eq!(other.wait().await.expect("finished").outcome, Outcome::Signaled(9));
    assert!(
        agent.client.runs(bystander.started().execution, SOON).await.expect("an answer"),
        "another execution"
    );
    assert!(agent.is_running());
    drop(bystander);
    agent.answers().await;
}

#[tokio::test]
async fn without_cgroups_a_kill_reaches_the_process_group() {
    let agent = agent!(Setup { cgroup: false, ..Setup::default() });
    let marker = marker();
    let line = format!("sleep {marker} & sleep {marker}");
    assert_eq!(agent.run(within(BRIEF, shell(&line))).await.outcome, Outcome::TimedOut);
    agent.soon_gone(&marker).await;
    agent.answers().await;
}
