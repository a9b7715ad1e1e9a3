//! Warm interpreters: the same as plain ones but for the time they take, and never in the way.

use rekindle::agent::{
    AgentClient, AgentError, ExecuteRequest, Finished, Interpreter, Language, Outcome, RestoreRequest, Stdin,
    TerminalSize, UploadOptions, WarmPython, WarmRequest,
};
use rekindle_test_support::wait::{until, until_answer};
use rekindle_test_support::{skip, snippets};

use crate::agent;
use crate::harness::{
    Agent, PATIENCE, SOON, Setup, Transport, code, path, restore_request, shell, var, within,
};

const MODULES: [&str; 10] = [
    "asyncio",
    "collections",
    "concurrent.futures",
    "json",
    "logging",
    "multiprocessing",
    "pickle",
    "random",
    "re",
    "uuid",
];

/// How many snippets are compared as the first execution of a clone.
const FIRST_SNIPPETS: usize = 12;

fn python() -> WarmRequest {
    let modules = MODULES.map(str::to_owned).into();
    WarmRequest { python: Some(WarmPython { modules, ..WarmPython::default() }), node: 0 }
}

/// An agent that keeps what `request` says warm.
async fn warm(request: WarmRequest) -> Result<Agent, String> {
    warm_with(request, Vec::new()).await
}

/// The same, started with more words than usual.
async fn warm_with(request: WarmRequest, words: Vec<&'static str>) -> Result<Agent, String> {
    let agent = Setup { transport: Transport::Listen, words, ..Setup::default() }.start().await?;
    for (language, wanted) in [("python3", request.python.is_some()), ("node", request.node > 0)] {
        if wanted && !agent.has(language).await {
            return Err(format!("this machine has no {language}"));
        }
    }
    match agent.client.warm(request, 3 * SOON).await {
        Ok(()) => Ok(agent),
        // A build of Node that will not change its user.
        Err(AgentError::Refused { message, .. }) if message.contains("disabled") => Err(message),
        Err(error) => panic!("nothing is kept warm: {error:?}"),
    }
}

macro_rules! warm {
    ($request:expr) => {
        match warm($request).await {
            Ok(agent) => agent,
            Err(reason) => skip!("{reason}"),
        }
    };
}

fn plain(request: ExecuteRequest) -> ExecuteRequest {
    ExecuteRequest { plain_interpreter: true, ..request }
}

/// What a caller sees of an execution, but for how long it took.
fn seen(finished: &Finished) -> (Outcome, &str, &str) {
    (finished.outcome, &finished.stdout.text, &finished.stderr.text)
}

async fn compare(agent: &Agent, language: Language, snippets: &[&str]) {
    let mut different = Vec::new();
    for source in snippets {
        let request = ExecuteRequest {
            stdin: Stdin::Whole as i32,
            stdin_data: "a line\nanother\n".into(),
            env: vec![var("MINE", "1")],
            ..code(language, source)
        };
        let mut warmed = agent.run(request.clone()).await;
        // Node is not forked: one is there again when the guest is at rest.
        if warmed.interpreter != Some(Interpreter::Warmed) {
            let rest = RestoreRequest { renew: true, settle: true, ..restore_request() };
            agent.client.restore(rest, 3 * SOON).await.expect("nothing is under way");
            warmed = agent.run(request.clone()).await;
        }
        assert_eq!(warmed.interpreter, Some(Interpreter::Warmed), "{source}");
        let expected = agent.run(plain(request)).await;
        assert_eq!(expected.interpreter, Some(Interpreter::Plain));
        if seen(&warmed) != seen(&expected) {
            different.push(format!("{source}\n  warm:  {:?}\n  plain: {:?}", seen(&warmed), seen(&expected)));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[tokio::test]
async fn a_warm_python_does_what_a_plain_one_does() {
    let agent = warm!(python());
    compare(&agent, Language::Python, snippets::PYTHON).await;
    agent.answers().await;
}

#[tokio::test]
async fn a_warm_node_does_what_a_plain_one_does() {
    let agent = warm!(WarmRequest { python: None, node: 1 });
    compare(&agent, Language::Node, snippets::NODE).await;
    agent.answers().await;
}

/// Freezes the guest and opens it again, as a snapshot and its restore do: it is as it was made.
async fn reopen(agent: &mut Agent) {
    agent.client.quiesce(false, 3 * SOON).await.expect("quiet");
    agent.client = AgentClient::connect(agent.dial().await, SOON).await.expect("a session");
    agent.client.restore(restore_request(), SOON).await.expect("opened");
}

/// The very first execution of a clone runs as its interpreter was prepared, and takes a shorter way.
async fn compare_first(agent: &mut Agent, language: Language, snippets: &[&str]) {
    let mut different = Vec::new();
    // Each of them takes the guest some seconds to come to rest.
    for source in snippets.iter().step_by(snippets.len().div_ceil(FIRST_SNIPPETS)) {
        reopen(agent).await;
        let warmed = agent.run(code(language, source)).await;
        assert_eq!(warmed.interpreter, Some(Interpreter::Warmed), "{source}");
        let expected = agent.run(plain(code(language, source))).await;
        if seen(&warmed) != seen(&expected) {
            different.push(format!("{source}\n  warm:  {:?}\n  plain: {:?}", seen(&warmed), seen(&expected)));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[tokio::test]
async fn the_first_python_of_a_clone_does_what_a_plain_one_does() {
    let mut agent = warm!(python());
    compare_first(&mut agent, Language::Python, snippets::PYTHON).await;
}

#[tokio::test]
async fn the_first_node_of_a_clone_does_what_a_plain_one_does() {
    let mut agent = warm!(WarmRequest { python: None, node: 1 });
    compare_first(&mut agent, Language::Node, snippets::NODE).await;
}

#[tokio::test]
async fn with_everything_off_that_only_saves_time_executions_are_the_same() {
    let off = "tuning=-preopened,-settle,-prepared_interpreters,-spare_cgroup";
    let mut agent = match warm_with(python(), vec![off]).await {
        Ok(agent) => agent,
        Err(reason) => skip!("{reason}"),
    };
    reopen(&mut agent).await;
    let source =
        "import os, json; print(json.dumps([os.nice(0), len(os.sched_getaffinity(0)), os.getcwd()]))";
    for _ in 0..2 {
        let warmed = agent.run(code(Language::Python, source)).await;
        let expected = agent.run(plain(code(Language::Python, source))).await;
        assert_eq!(warmed.interpreter, Some(Interpreter::Warmed));
        assert_eq!(seen(&warmed), seen(&expected));
    }
    // Nobody waits for the kernel to come to rest, and the gate opens its own files.
    reopen(&mut agent).await;
    agent.answers().await;
}

#[tokio::test]
async fn what_was_put_there_before_the_first_python_of_a_clone_is_seen_by_it() {
    let mut agent = warm!(python());
    reopen(&mut agent).await;
    let (own, options) = (path("json.py"), UploadOptions::default());
    agent.client.upload_bytes(&own, options, b"print('mine')", PATIENCE).await.expect("uploaded");
    let finished = agent.run(code(Language::Python, "import json")).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("mine\n", Some(Interpreter::Plain)));
    // It is there from the start now.
    agent.run(code(Language::Python, "0")).await;
    reopen(&mut agent).await;
    let finished = agent.run(code(Language::Python, "import json")).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("mine\n", Some(Interpreter::Plain)));
}

#[tokio::test]
async fn every_execution_is_a_process_of_its_own_with_numbers_of_its_own() {
    let agent = warm!(python());
    let source = "import os, random, uuid, multiprocessing.process as p\n\
                  assert 'left' not in globals() and not hasattr(random, 'left')\n\
                  left = random.left = 1\n\
                  print(os.getpid(), random.random(), uuid.uuid4(), p.current_process().authkey.hex())";
    let (one, two) = (agent.run(code(Language::Python, source)), agent.run(code(Language::Python, source)));
    let (one, two) = tokio::join!(one, two);
    let three = agent.run(code(Language::Python, source)).await;
    for finished in [&one, &two, &three] {
        assert_eq!(finished.outcome, Outcome::Exited(0), "{finished:?}");
        assert_eq!(finished.interpreter, Some(Interpreter::Warmed));
    }
    for (index, what) in ["pid", "random", "uuid", "key"].iter().enumerate() {
        let of = |finished: &Finished| finished.stdout.text.split_whitespace().nth(index).map(str::to_owned);
        assert!(of(&one) != of(&two) && of(&two) != of(&three) && of(&one) != of(&three), "{what}");
    }
}

#[tokio::test]
async fn who_changes_what_an_interpreter_reads_at_its_start_gets_a_plain_one() {
    let agent = warm!(python());
    let with = |variable| ExecuteRequest { env: vec![variable], ..code(Language::Python, "print('hi')") };
    for (request, interpreter) in [
        (with(var("MINE", "1")), Interpreter::Warmed),
        (with(var("TZ", "Asia/Tokyo")), Interpreter::Warmed),
        (with(var("PYTHONHASHSEED", "0")), Interpreter::Plain),
        (with(var("PATH", "/usr/bin:/bin")), Interpreter::Plain),
        (with(var("LANG", "C")), Interpreter::Plain),
        (with(var("LD_PRELOAD", "")), Interpreter::Plain),
        (plain(with(var("MINE", "1"))), Interpreter::Plain),
        (ExecuteRequest { user: "root".into(), ..with(var("MINE", "1")) }, Interpreter::Plain),
    ] {
        let finished = agent.run(request.clone()).await;
        assert_eq!(finished.outcome, Outcome::Exited(0), "{finished:?}");
        assert_eq!(finished.interpreter, Some(interpreter), "{request:?}");
    }
    assert_eq!(agent.run(shell("true")).await.interpreter, None);
    assert_eq!(agent.run(code(Language::Bash, "true")).await.interpreter, Some(Interpreter::Plain));
}

#[tokio::test]
async fn a_program_that_replaces_what_modules_hold_gets_a_plain_one() {
    let agent = warm!(python());
    for (source, expected) in [
        ("import bisect\nbisect.bisect = 5\nimport random; print(random._bisect)", "5\n"),
        ("import builtins\nbuiltins.held = open('held', 'w'); held.write('x')", ""),
        ("import os; os.environ['PYTHONWARNINGS'] = '1'; print('hi')", "hi\n"),
    ] {
        let finished = agent.run(code(Language::Python, source)).await;
        assert_eq!(finished.stdout.text, expected, "{source}: {}", finished.stderr.text);
        assert_eq!(finished.interpreter, Some(Interpreter::Plain), "{source}");
    }
    assert_eq!(agent.run(shell("cat held")).await.stdout.text, "x");
}

#[tokio::test]
async fn a_module_of_the_users_stands_in_front_of_one_that_is_kept_warm() {
    let agent = warm!(python());
    agent.shell("echo 'print(\"mine\")' > json.py").await;
    let finished = agent.run(code(Language::Python, "import json")).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("mine\n", Some(Interpreter::Plain)));
    agent.shell("rm -r json.py __pycache__; mkdir json late").await;
    // A directory is no module as long as there is a real one.
    let finished = agent.run(code(Language::Python, "import json; print(json.dumps(1))")).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("1\n", Some(Interpreter::Warmed)));
    let late = "import sys; open('late/random.py', 'w').write('print(1)'); sys.path.insert(0, 'late'); import random";
    let finished = agent.run(code(Language::Python, late)).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("1\n", Some(Interpreter::Warmed)));
}

#[tokio::test]
async fn packages_the_user_has_installed_are_found() {
    let agent = warm!(python());
    let place = "$(env -i HOME=$HOME python3 -c 'import site; print(site.getusersitepackages())')";
    agent.shell(&format!("mkdir -p {place}; echo 'x = 5' > {place}/own_package.py")).await;
    let source = "import own_package, sys; print(own_package.x, sys.path)";
    let warmed = agent.run(code(Language::Python, source)).await;
    let expected = agent.run(plain(code(Language::Python, source))).await;
    assert_eq!(seen(&warmed), seen(&expected));
    assert_eq!(warmed.interpreter, Some(Interpreter::Warmed));
}

#[tokio::test]
async fn a_package_of_the_users_that_a_warm_module_looks_for_is_found_by_it() {
    let agent = warm!(python());
    let place = "$(env -i HOME=$HOME python3 -c 'import site; print(site.getusersitepackages())')";
    // `pickle` looks for it and has not found it.
    agent.shell(&format!("mkdir -p {place}/org; echo > {place}/org/__init__.py")).await;
    agent.shell(&format!("mkdir {place}/org/python; touch {place}/org/python/__init__.py")).await;
    agent.shell(&format!("echo 'PyStringMap = 5' > {place}/org/python/core.py")).await;
    let source = "import pickle; print(pickle.PyStringMap)";
    let finished = agent.run(code(Language::Python, source)).await;
    assert_eq!((finished.stdout.text.as_str(), finished.interpreter), ("5\n", Some(Interpreter::Plain)));
}

#[tokio::test]
async fn without_a_forker_executions_go_on_and_a_new_one_is_started() {
    let agent = warm!(python());
    let forker = agent.children("rekindle_warm import forker");
    assert!(!forker.is_empty());
    for pid in &forker {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(*pid as i32),
            nix::sys::signal::Signal::SIGKILL,
        );
    }
    until("the old forker is gone", || agent.children("rekindle_warm import forker").is_empty()).await;
    let first = agent.run(code(Language::Python, "print('hi')")).await;
    assert_eq!((first.outcome, first.interpreter), (Outcome::Exited(0), Some(Interpreter::Plain)));
    until_answer("a new interpreter is warm", async || {
        let finished = agent.run(code(Language::Python, "print('hi')")).await;
        assert_eq!(finished.stdout.text, "hi\n");
        (finished.interpreter == Some(Interpreter::Warmed)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn limits_failures_and_terminals_are_those_of_any_execution() {
    let agent = warm!(python());
    let endless = "import time\nprint('on')\nwhile True: time.sleep(0.01)";
    let late =
        agent.run(within(std::time::Duration::from_millis(300), code(Language::Python, endless))).await;
    assert_eq!((late.outcome, late.stdout.text.as_str()), (Outcome::TimedOut, "on\n"));
    assert_eq!(late.interpreter, Some(Interpreter::Warmed));

    let lost = ExecuteRequest { cwd: "/nowhere".into(), ..code(Language::Python, "print('hi')") };
    let refused = agent.client.run(lost.clone()).await.expect_err("there is no such directory");
    let expected = agent.client.run(plain(lost)).await.expect_err("there is no such directory");
    assert_eq!(refused.to_string(), expected.to_string());

    let size = TerminalSize { rows: 30, cols: 90 };
    let source = "import os, sys; print(os.get_terminal_size(), sys.stdout.isatty(), sys.stdout.line_buffering)\n\
                  print(os.ttyname(0) == os.ttyname(1), os.tcgetpgrp(0) == os.getpgrp(), open('/dev/tty').isatty())";
    let request = ExecuteRequest { terminal: Some(size), ..code(Language::Python, source) };
    let warmed = agent.run(request.clone()).await;
    let expected = agent.run(plain(request)).await;
    assert_eq!(seen(&warmed), seen(&expected));
    assert_eq!(warmed.interpreter, Some(Interpreter::Warmed));

    if agent.client.hello().capabilities.memory_limits {
        let hungry = ExecuteRequest {
            memory_bytes: 64 << 20,
            ..code(Language::Python, "x = []\nwhile True: x.append(bytearray(1 << 20))")
        };
        let finished = agent.run(hungry).await;
        assert_eq!(
            (finished.outcome, finished.interpreter),
            (Outcome::OutOfMemory, Some(Interpreter::Warmed))
        );
    }
    agent.answers().await;
}

#[tokio::test]
async fn a_warm_interpreter_leads_no_process_group() {
    let agent = warm!(python());
    let source = "import os\nprint(os.getpid() == os.getsid(0), os.getpid() == os.getpgrp())";
    let warmed = agent.run(code(Language::Python, source)).await;
    assert_eq!((&warmed.stdout.text[..], warmed.interpreter), ("False False\n", Some(Interpreter::Warmed)));
}

#[tokio::test]
async fn a_program_can_neither_reach_nor_see_what_waits() {
    let agent = warm!(python());
    // Children of this agent: other tests have theirs.
    let source = "import os, signal\n\
                  def allowed(pid):\n\
                  \x20   try: os.kill(pid, signal.SIGKILL); return True\n\
                  \x20   except PermissionError: return False\n\
                  mine = (os.getpid(), os.getppid())\n\
                  found = []\n\
                  for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n\
                  \x20   try:\n\
                  \x20       line = open(f'/proc/{pid}/cmdline').read()\n\
                  \x20       parent = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n\
                  \x20   except OSError: continue\n\
                  \x20   if 'rekindle_warm' in line and parent == os.getppid() and pid not in mine: found.append((allowed(pid), os.access(f'/proc/{pid}/environ', os.R_OK)))\n\
                  print(set(found) <= {(False, False)})";
    let finished = agent.run(code(Language::Python, source)).await;
    assert_eq!(finished.stdout.text, "True\n", "{finished:?}");
    let again = agent.run(code(Language::Python, "print('hi')")).await;
    assert_eq!(again.interpreter, Some(Interpreter::Warmed));
}

#[tokio::test]
async fn a_program_gets_the_smallest_interpreter_that_has_what_it_imports() {
    let python = WarmPython { modules: vec!["json".into(), "re".into()], packages: vec!["sqlite3".into()] };
    let agent = warm!(WarmRequest { python: Some(python), node: 0 });
    // The library is only mapped where the package was imported.
    let has = "print('_sqlite3' in open('/proc/self/maps').read())";
    for (first, expected) in
        [("", "False\n"), ("import re, json;", "False\n"), ("import calendar;", "True\n")]
    {
        let source = format!("{first}{has}");
        for _ in 0..3 {
            let finished = agent.run(code(Language::Python, &source)).await;
            assert_eq!(finished.interpreter, Some(Interpreter::Warmed), "{source}");
            assert_eq!(finished.stdout.text, expected, "{source}: {}", finished.stderr.text);
        }
    }
    // A wrong guess is not noticed.
    let hidden = "exec('imp' + 'ort sqlite3; print(sqlite3.sqlite_version_info > (3, 0))')";
    assert_eq!(agent.run(code(Language::Python, hidden)).await.stdout.text, "True\n");
}

#[tokio::test]
async fn a_guest_at_rest_has_its_interpreters_again() {
    let agent = warm!(WarmRequest { python: None, node: 1 });
    for _ in 0..2 {
        let finished = agent.run(code(Language::Node, "console.log(1)")).await;
        assert_eq!(finished.interpreter, Some(Interpreter::Warmed));
        let rest = RestoreRequest { renew: true, settle: true, ..restore_request() };
        agent.client.restore(rest, 3 * SOON).await.expect("nothing is under way");
    }
}

#[tokio::test]
async fn nonsense_is_refused() {
    let agent = agent!();
    let module = |name: &str| WarmRequest {
        python: Some(WarmPython { modules: vec![name.to_owned()], ..WarmPython::default() }),
        ..WarmRequest::default()
    };
    let many = WarmRequest { node: 9, ..WarmRequest::default() };
    for request in [module("os; print(1)"), module("a..b"), module(""), module("1a"), many] {
        match agent.client.warm(request.clone(), SOON).await {
            Err(AgentError::Refused { .. }) => {}
            other => panic!("{request:?}: {other:?}"),
        }
    }
    agent.answers().await;
}
