//! Warm interpreters in real guests: there from the first moment, like plain ones, and every clone's own.

use std::collections::BTreeSet;

use futures::future::join_all;
use rekindle::agent::{ExecuteRequest, Finished, Interpreter, Outcome};
use rekindle::vm::{Identity, Vm, restore_clone};
use rekindle_e2e::guest::{node, python, run, shell};
use rekindle_test_support::snippets;
use rekindle_test_support::wait::until_answer;

/// The big image with its interpreters kept warm, and without the long warm-up of the real template.
const PYTHON_NODE: &str = r#"
description = "the big image with warm interpreters"
image = "python-node"
vcpus = 2
memory_mib = 1024
scratch_mib = 256
[warm]
python = ["json", "random", "uuid"]
packages = ["numpy", "pandas"]
node = 2
"#;
/// A plain Node takes seconds under emulation: one of so many snippets is run in a guest, all of them in the
/// agent's own tests.
const NODE_STEP: usize = 6;
/// Executions within which a warm interpreter must be met.
const MAX_TRIES: usize = 20;

/// What a caller sees of an execution, but for how long it took.
fn seen(finished: &Finished) -> (Outcome, &str, &str) {
    (finished.outcome, &finished.stdout.text, &finished.stderr.text)
}

/// Runs a snippet in a warm interpreter. Between two of them a new one may still be starting.
async fn warmed(vm: &Vm, request: fn(&str) -> ExecuteRequest, source: &str) -> Finished {
    for _ in 0..MAX_TRIES {
        let finished = run(vm, request(source)).await;
        if finished.interpreter == Some(Interpreter::Warmed) {
            return finished;
        }
    }
    panic!("none of {MAX_TRIES} executions met a warm interpreter: {source}");
}

/// Runs each snippet both ways and returns those that differ.
async fn differences(vm: &Vm, request: fn(&str) -> ExecuteRequest, snippets: &[&str]) -> Vec<String> {
    let mut different = Vec::new();
    for source in snippets {
        let warmed = warmed(vm, request, source).await;
        let plain = run(vm, ExecuteRequest { plain_interpreter: true, ..request(source) }).await;
        assert_eq!(plain.interpreter, Some(Interpreter::Plain));
        if seen(&warmed) != seen(&plain) {
            different.push(format!("{source}\n  warm:  {:?}\n  plain: {:?}", seen(&warmed), seen(&plain)));
        }
    }
    different
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_python_of_a_clone_is_warm_and_cannot_be_told_from_a_plain_one() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    let first = run(&vm, python("print('hi')")).await;
    assert_eq!(
        (seen(&first), first.interpreter),
        ((Outcome::Exited(0), "hi\n", ""), Some(Interpreter::Warmed))
    );
    let mut different = differences(&vm, python, snippets::PYTHON).await;
    different.extend(differences(&vm, python, snippets::PYTHON_FRAMES).await);
    let own = [
        "import os; print(os.getppid(), open('/proc/self/cmdline').read(), open('/proc/self/environ').read())",
    ];
    different.extend(differences(&vm, python, &own).await);
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    vm.stop().await;
}

/// Programs whose first steps only a clone's first execution takes: it runs as its interpreter was prepared.
const FIRST: [&str; 4] = [
    "import os, sys\nread = lambda name: open(f'/proc/self/{name}', 'rb').read()\n\
     status = [l for l in read('status').split(b'\\n') if l[:4] in (b'Uid:', b'Gid:', b'Grou', b'CapE', b'SigB', b'SigI')]\n\
     print(read('cmdline'), read('environ'), status, os.getcwd(), sorted(os.listdir('/proc/self/fd')))\n\
     print(os.stat('/proc/self').st_uid, os.umask(0), sys.argv, sys.orig_argv, len(sys._getframe().f_code.co_names))",
    "# caf\u{e9} \u{1f40d}\nimport sys; print(ascii(sys.orig_argv))\ndef f(): raise ValueError('\u{df}')\nf()",
    "",
    "import sys; sys.exit(7)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_that_runs_as_it_was_prepared_cannot_be_told_from_a_plain_one() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let long =
        format!("x = '{}'\nprint(len(x), len(open('/proc/self/cmdline').read()))", "y".repeat(100_000));
    for source in FIRST.iter().copied().chain([long.as_str()]) {
        let vm = lab.clone().await;
        let first = run(&vm, python(source)).await;
        assert_eq!(first.interpreter, Some(Interpreter::Warmed), "{source}");
        let plain = run(&vm, ExecuteRequest { plain_interpreter: true, ..python(source) }).await;
        assert_eq!(seen(&first), seen(&plain), "{source}");
        let loaded = "print('/interpreters/native.so' in open('/proc/self/maps').read())";
        assert_eq!(warmed(&vm, python, loaded).await.stdout.text, "True\n");
        vm.stop().await;
    }
}

/// Takes a lock and a port, as numbers that no finalizer closes, and leaves a process behind that tries to take both
/// at the moment it has ended.
const HOLD: &str = "import fcntl, os, socket\n\
     def take():\n \
         lock = os.open('/tmp/lock', os.O_CREAT | os.O_RDWR); fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n \
         port = socket.socket(); port.bind(('127.0.0.1', 7000)); port.listen()\n \
         return lock, port.detach()\n\
     held, program = take(), os.getpid()\n\
     if os.fork() == 0:\n \
         for file in held: os.close(file)\n \
         while os.getppid() == program: pass\n \
         try: take(); verdict = 'free'\n \
         except OSError as error: verdict = str(error)\n \
         print(verdict, file=open('/tmp/verdict', 'a'))\n \
         os._exit(0)";
/// Names the processes of other executions, says whether there are no more groups than the one that asks has and one
/// that waits for the next, and what came of the try.
const LEFT: &str = "cd /sys/fs/cgroup/sandbox && for group in e*; do \
     grep -qx $$ $group/cgroup.procs || cat $group/cgroup.procs; done; [ $(ls -d e* | wc -l) -le 2 ] && echo tidy; cat /tmp/verdict";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_held_is_free_when_its_result_is_there_and_nothing_of_it_stays() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let vm = lab.clone().await;
    let finished = run(&vm, python(HOLD)).await;
    assert_eq!(
        (seen(&finished), finished.interpreter),
        ((Outcome::Exited(0), "", ""), Some(Interpreter::Warmed))
    );
    let left = async || run(&vm, shell(LEFT)).await.stdout.text;
    until_answer("nothing is left", async || (left().await == "tidy\nfree\n").then_some(())).await;
    vm.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warm_interpreters_of_clones_share_no_randomness_and_bring_their_libraries() {
    let lab = lab!();
    let source = match lab.source_of("warm", PYTHON_NODE) {
        Ok(source) => source,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let _turn = lab.turn().await;
    let built = source.build(&lab.host, &lab.store, &|_| {}).await.expect("the template is built");
    let (plan, identity) = (source.plan(), Identity::default());
    let restore = || restore_clone(&lab.host, &built.snapshot, &plan, &identity);
    let clones: Vec<Vm> = [restore().await, restore().await].map(|vm| vm.expect("a clone")).into();

    let draw = python(
        "import numpy, os, random, uuid\n\
         print(random.random(), numpy.random.random(), numpy.random.default_rng().random(), uuid.uuid4())",
    );
    let draw_js = node(
        "console.log(Math.random(), crypto.randomUUID(), require('crypto').randomBytes(8).toString('hex'))",
    );
    for request in [draw, draw_js] {
        let mut drawn = Vec::new();
        // Twice in each clone.
        for _ in 0..2 {
            drawn.extend(join_all(clones.iter().map(|vm| run(vm, request.clone()))).await);
        }
        for finished in &drawn {
            assert_eq!(finished.outcome, Outcome::Exited(0), "{}", finished.stderr.text);
            assert_eq!(finished.interpreter, Some(Interpreter::Warmed));
        }
        let words: Vec<&str> =
            drawn.iter().flat_map(|finished| finished.stdout.text.split_whitespace()).collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{words:?}");
    }

    let vm = &clones[0];
    let ends_at_once =
        "console.log(fs.readFileSync('/proc/self/maps', 'utf8').includes('/interpreters/native.so'))";
    assert_eq!(warmed(vm, node, ends_at_once).await.stdout.text, "true\n");
    let mut different = differences(vm, python, snippets::PYTHON_DATA).await;
    let few: Vec<&str> = snippets::NODE.iter().copied().step_by(NODE_STEP).collect();
    different.extend(differences(vm, node, &few).await);
    different.extend(differences(vm, node, snippets::NODE_GUEST).await);
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));

    // What waits is out of a program's reach.
    run(vm, shell("kill -9 -1")).await;
    assert_eq!(run(vm, python("print(1)")).await.interpreter, Some(Interpreter::Warmed));
    join_all(clones.into_iter().map(Vm::stop)).await;
}
