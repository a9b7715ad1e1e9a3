//! Words real interpreters print.

use super::*;

fn ended(language: Option<Language>, code: Option<u8>, stderr: &str) -> Ended<'_> {
    Ended { language, code, out_of_memory: false, silent: false, stderr }
}

fn told(language: Option<Language>, code: u8, stderr: &str) -> Option<(DiagnosisKind, String)> {
    let found = diagnose(&ended(language, Some(code), stderr));
    found.map(|found| (found.kind(), found.subject))
}

/// Kind, subject and message.
fn all(language: Language, stderr: &str) -> (DiagnosisKind, String, String) {
    let found = diagnose(&ended(Some(language), Some(1), stderr)).unwrap_or_else(|| panic!("{stderr}"));
    assert_eq!(found.language(), language);
    (found.kind(), found.subject, found.message)
}

fn is(kind: DiagnosisKind, subject: &str, message: &str) -> (DiagnosisKind, String, String) {
    (kind, subject.to_owned(), message.to_owned())
}

#[test]
fn python_failures_are_told_apart() {
    let trace = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n    x\n";
    let python = |text: &str| told(Some(Language::Python), 1, text);
    assert_eq!(
        python(&format!("{trace}ModuleNotFoundError: No module named 'left_pad'\n")),
        Some((DiagnosisKind::MissingModule, "left_pad".into()))
    );
    assert_eq!(
        python("  File \"<string>\", line 1\n    if\n      ^\nSyntaxError: invalid syntax\n"),
        Some((DiagnosisKind::SyntaxError, "SyntaxError".into()))
    );
    assert_eq!(
        python(&format!("{trace}ZeroDivisionError: division by zero\n")),
        Some((DiagnosisKind::UncaughtException, "ZeroDivisionError".into()))
    );
    assert_eq!(
        python(&format!("{trace}json.decoder.JSONDecodeError: Expecting value\n")),
        Some((DiagnosisKind::UncaughtException, "json.decoder.JSONDecodeError".into()))
    );
    assert_eq!(
        python(&format!("{trace}KeyboardInterrupt\n")),
        Some((DiagnosisKind::UncaughtException, "KeyboardInterrupt".into()))
    );
    assert_eq!(python("Error: my own words before sys.exit(1)\n"), None);
    assert_eq!(told(Some(Language::Python), 0, &format!("{trace}ValueError: x\n")), None);
}

#[test]
fn node_failures_are_told_apart() {
    let node = |text: &str| told(Some(Language::Node), 1, text);
    assert_eq!(
        node(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'left-pad'\nRequire stack:\n"
        ),
        Some((DiagnosisKind::MissingModule, "left-pad".into()))
    );
    assert_eq!(
        node("[eval]:1\nlet let\n    ^^^\n\nSyntaxError: let is disallowed\n    at x\n"),
        Some((DiagnosisKind::SyntaxError, "SyntaxError".into()))
    );
    assert_eq!(
        node("[eval]:1\nfoo\n^\n\nReferenceError: foo is not defined\n    at [eval]:1:1\n"),
        Some((DiagnosisKind::UncaughtException, "ReferenceError".into()))
    );
    assert_eq!(node("just words\n"), None);
}

#[test]
fn a_missing_command_is_named() {
    let shell = |code, text: &str| told(None, code, text);
    assert_eq!(
        shell(127, "bash: line 1: frobnicate: command not found\n"),
        Some((DiagnosisKind::MissingCommand, "frobnicate".into()))
    );
    assert_eq!(
        shell(127, "/bin/sh: 1: frobnicate: not found\n"),
        Some((DiagnosisKind::MissingCommand, "frobnicate".into()))
    );
    assert_eq!(shell(1, "grep: x: not found\n"), None);
    assert_eq!(
        told(Some(Language::Bash), 2, "bash: -c: line 1: syntax error near unexpected token `)'\n"),
        Some((DiagnosisKind::SyntaxError, String::new()))
    );
}

/// A stack of Node, from its first line on.
fn thrown(line: &str, mark: usize, what: &str) -> String {
    format!("[eval]:1\n{line}\n{}^\n\n{what}\n    at [eval]:1:39\n\nNode.js v24.19.0\n", " ".repeat(mark))
}

#[test]
fn an_exception_in_lower_case_is_one() {
    let text = "Traceback (most recent call last):\n  File \"<string>\", line 3, in <module>\n  \
                File \"<string>\", line 2, in f\nmy_error: hi\nthere: you\nFoo: bar\n";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "my_error", "hi"));
    let text = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n\
                zlib.error: Error -5 while decompressing data: incomplete or truncated stream\n";
    let message = "Error -5 while decompressing data: incomplete or truncated stream";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "zlib.error", message));
    let text = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nValueError: v\na note: x\n";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "ValueError", "v"));
}

#[test]
fn the_exception_that_nobody_caught_is_the_last_of_a_chain() {
    let text = "Traceback (most recent call last):\n  File \"<string>\", line 3, in <module>\n\
                ZeroDivisionError: division by zero\n\n\
                The above exception was the direct cause of the following exception:\n\n\
                Traceback (most recent call last):\n  File \"<string>\", line 5, in <module>\nRuntimeError: x\n";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "RuntimeError", "x"));
}

#[test]
fn a_group_names_its_members() {
    let text = "  + Exception Group Traceback (most recent call last):\n  |   File \"<string>\", line 1, in <module>\n  \
                | ExceptionGroup: eg (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    \
                | ValueError: 1\n    +---------------- 2 ----------------\n    | TypeError: 2\n    \
                +------------------------------------\n";
    let message = "eg (2 sub-exceptions): ValueError, TypeError";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "ExceptionGroup", message));
    let text = "  + Exception Group Traceback (most recent call last):\n  |   File \"<string>\", line 6, in <module>\n  \
                |     return runner.run(main)\n  |            ^^^^^^^^^^^^^^^^\n  \
                | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  \
                +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    \
                |   File \"<string>\", line 5, in g\n    | KeyError: 'bg'\n    \
                +------------------------------------\n";
    let message = "unhandled errors in a TaskGroup (1 sub-exception): KeyError";
    assert_eq!(all(Language::Python, text), is(DiagnosisKind::UncaughtException, "ExceptionGroup", message));
}

#[test]
fn an_exception_beside_the_program_is_told_although_the_program_returned_0() {
    let thread = "Exception in thread Thread-1 (<lambda>):\nTraceback (most recent call last):\n  \
                  File \"/usr/lib/python3.13/threading.py\", line 1045, in _bootstrap_inner\n    self.run()\n  \
                  File \"<string>\", line 1, in <lambda>\nZeroDivisionError: division by zero\n";
    let task = "Task exception was never retrieved\n\
                future: <Task finished name='Task-2' coro=<g() done> exception=ValueError('bg')>\n\
                Traceback (most recent call last):\n  File \"<string>\", line 4, in g\nValueError: bg\n";
    for (text, name) in [(thread, "ZeroDivisionError"), (task, "ValueError")] {
        for (language, code) in [(Some(Language::Python), 0), (Some(Language::Python), 1), (None, 0)] {
            let kind = DiagnosisKind::BackgroundException;
            assert_eq!(told(language, code, text), Some((kind, name.to_owned())), "{code}");
        }
    }
    let caught = "Traceback (most recent call last):\n  File \"a\", line 1, in f\nValueError: logged\n";
    assert_eq!(
        told(Some(Language::Python), 0, caught),
        None,
        "a program that logs an exception has caught it"
    );
}

#[test]
fn an_exception_of_a_bare_thread_or_a_child_process_is_told_too() {
    // Python 3.11 and 3.13, which puts the colon elsewhere.
    let stack =
        "Traceback (most recent call last):\n  File \"/home/user/t.py\", line 2, in f\nValueError: a\nb\n";
    let thread = format!("Exception ignored in thread started by: <function f at 0x7f518b2d9bc0>\n{stack}");
    let newer = format!("Exception ignored in thread started by <function f at 0x7f10da65b2e0>:\n{stack}");
    let below = "  File \"/usr/lib/python3.11/multiprocessing/process.py\", line 314, in _bootstrap\n    self.run()\n  \
                 File \"/usr/lib/python3.11/multiprocessing/process.py\", line 108, in run\n    \
                 self._target(*self._args, **self._kwargs)\n  File \"/home/user/t.py\", line 2, in f\n    \
                 def f(): raise ValueError(\"x\")\n             ^^^^^^^^^^^^^^^^^^^^^\nValueError: x\n";
    let process = format!("Process Process-1:\nTraceback (most recent call last):\n{below}");
    let named = format!("Process My worker:\nTraceback (most recent call last):\n{below}");
    for text in [&thread, &newer, &process, &named] {
        for (language, code) in [(Some(Language::Python), 0), (Some(Language::Python), 1), (None, 0)] {
            let expected = Some((DiagnosisKind::BackgroundException, "ValueError".to_owned()));
            assert_eq!(told(language, code, text), expected, "{code}: {text}");
        }
    }
    let logged = format!("Process failed:\n{stack}");
    assert_eq!(told(Some(Language::Python), 0, &logged), None, "a program's own words");
    let failed = format!(
        "{process}Traceback (most recent call last):\n  File \"t.py\", line 6, in <module>\nKeyError: 1\n"
    );
    assert_eq!(
        all(Language::Python, &failed),
        is(DiagnosisKind::UncaughtException, "KeyError", "1"),
        "the program's own exception is the last"
    );
}

#[test]
fn an_exception_beside_the_program_may_have_come_of_another() {
    let chain = "Traceback (most recent call last):\n  File \"/home/user/t.py\", line 3, in f\n    try: {}[\"k\"]\n         \
                 ~~^^^^^\nKeyError: 'k'\n\nThe above exception was the direct cause of the following exception:\n\n\
                 Traceback (most recent call last):\n  File \"/usr/lib/python3.11/threading.py\", line 1045, in \
                 _bootstrap_inner\n    self.run()\n  File \"/home/user/t.py\", line 4, in f\nValueError: x\n";
    let thread = format!("Exception in thread Thread-1 (f):\n{chain}");
    let task = format!(
        "Task exception was never retrieved\nfuture: <Task finished name='Task-2' coro=<f() done, defined at \
         /home/user/t.py:2> exception=ValueError('x')>\n{chain}"
    );
    let process = "Process Process-1:\nTraceback (most recent call last):\n  File \"/home/user/t.py\", line 3, in f\n\
        KeyError: 'k'\n\nDuring handling of the above exception, another exception occurred:\n\n  \
        + Exception Group Traceback (most recent call last):\n  \
        |   File \"/usr/lib/python3.11/multiprocessing/process.py\", line 314, in _bootstrap\n  |     self.run()\n  \
        | ExceptionGroup: g (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | TypeError: 1\n    \
        +------------------------------------\n";
    for (text, name) in
        [(thread.as_str(), "ValueError"), (task.as_str(), "ValueError"), (process, "ExceptionGroup")]
    {
        let expected = Some((DiagnosisKind::BackgroundException, name.to_owned()));
        assert_eq!(told(Some(Language::Python), 0, text), expected, "{text}");
    }
    assert_eq!(told(Some(Language::Python), 0, chain), None, "a program that logs a chain has caught it");
    let (_, cut) = chain.split_once("KeyError: 'k'\n").expect("two exceptions");
    assert_eq!(
        all(Language::Python, cut),
        is(DiagnosisKind::UncaughtException, "ValueError", "x"),
        "what came before is not needed"
    );
}

#[test]
fn what_is_not_allowed_is_named() {
    let denied = |subject: &str| Some((DiagnosisKind::PermissionDenied, subject.to_owned()));
    let python = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n\
                  PermissionError: [Errno 13] Permission denied: '/etc/x'\n";
    assert_eq!(told(Some(Language::Python), 1, python), denied("/etc/x"));
    let read_only = python.replace(
        "PermissionError: [Errno 13] Permission denied",
        "OSError: [Errno 30] Read-only file system",
    );
    assert_eq!(told(Some(Language::Python), 1, &read_only), denied("/etc/x"));
    let node =
        thrown("    return binding.writeFileUtf8(", 19, "Error: EACCES: permission denied, open '/etc/x'");
    assert_eq!(told(Some(Language::Node), 1, &node), denied("/etc/x"));
    for (line, subject) in [
        ("bash: line 1: /etc/x: Permission denied", "/etc/x"),
        ("cat: /etc/shadow: Permission denied", "/etc/shadow"),
        ("touch: cannot touch '/etc/x': Permission denied", "/etc/x"),
        ("mkdir: cannot create directory \u{2018}/etc/y\u{2019}: Permission denied", "/etc/y"),
        ("/bin/sh: 1: cannot create /etc/x: Permission denied", "/etc/x"),
        ("cp: cannot create regular file '/etc/z': Read-only file system", "/etc/z"),
        ("chown: changing ownership of 'a': Operation not permitted", "a"),
    ] {
        assert_eq!(told(None, 1, &format!("{line}\n")), denied(subject), "{line}");
    }
    assert_eq!(told(None, 1, "cat: /etc/shadow: Permission denied\nmore words\n"), None);
}

#[test]
fn what_was_thrown_in_node_need_be_no_error() {
    let kind = DiagnosisKind::UncaughtException;
    let trace =
        "(Use `node --trace-uncaught ...` to show where the exception was thrown)\n\nNode.js v24.19.0\n";
    for value in ["oops", "null", "Error: no error"] {
        let text = format!("\n[eval]:1\nthrow x\n^\n{value}\n{trace}");
        assert_eq!(all(Language::Node, &text), is(kind, "thrown value", value));
    }
    let object = "[eval]:1\nthrow {a:1}\n^\n\n{ a: 1 }\n\nNode.js v24.19.0\n";
    assert_eq!(all(Language::Node, object), is(kind, "thrown value", "{ a: 1 }"));
    let rejected = "node:internal/process/promises:392\n      new UnhandledPromiseRejection(reason);\n      ^\n\n\
        UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a \
        catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the \
        reason \"why\".\n    at throwUnhandledRejectionsMode (node:internal/process/promises:392:7) {\n  \
        code: 'ERR_UNHANDLED_REJECTION'\n}\n\nNode.js v24.19.0\n";
    assert_eq!(all(Language::Node, rejected), is(kind, "UnhandledPromiseRejection", "why"));
}

#[test]
fn an_error_in_node_has_the_name_of_its_class() {
    for (text, name, message) in [
        (
            thrown("null.x", 5, "TypeError: Cannot read properties of null (reading 'x')"),
            "TypeError",
            "Cannot read properties of null (reading 'x')",
        ),
        (thrown("class MyError extends Error {}; throw new MyError('x')", 32, "Error: x"), "MyError", "x"),
        (
            thrown("        throw new errors.QuotaExceeded('multi\\nline')", 8, "TypeError: multi\nline"),
            "QuotaExceeded",
            "multi",
        ),
        (thrown("class E1 extends Error{}; Promise.reject(new E1('p'))", 41, "E1 [Error]: p"), "E1", "p"),
        (thrown("throw failure", 0, "ParseFailure: x y"), "ParseFailure", "x y"),
        (thrown("throw new Error('')", 0, "Error"), "Error", ""),
        (thrown("throw new DOMException('dd','AbortError')", 0, "AbortError: dd"), "DOMException", "dd"),
        (thrown("throw new Error('a\\nTypeError: fake')", 0, "Error: a\nTypeError: fake"), "Error", "a"),
        (
            thrown("f(", 1, "TypeError [ERR_INVALID_ARG_TYPE]: The \"path\" argument"),
            "TypeError",
            "The \"path\" argument",
        ),
    ] {
        let expected = is(DiagnosisKind::UncaughtException, name, message);
        assert_eq!(all(Language::Node, &text), expected, "{text}");
        assert_eq!(told(None, 1, &text), Some((expected.0, expected.1)), "run by a shell: {text}");
    }
    let missing = "node:internal/modules/esm/resolve:873\n  throw new ERR_MODULE_NOT_FOUND(packageName, null);\n        ^\n\n\
        Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'nopkg' imported from /home/user/[eval]\n    at x\n";
    assert_eq!(told(Some(Language::Node), 1, missing), Some((DiagnosisKind::MissingModule, "nopkg".into())));
    let built_in = thrown("f(", 1, "Error [ERR_UNKNOWN_BUILTIN_MODULE]: No such built-in module: node:fss");
    assert_eq!(
        told(Some(Language::Node), 1, &built_in),
        Some((DiagnosisKind::MissingModule, "node:fss".into()))
    );
}

/// Node prints the name that a class inherits where a script of `-e` throws as it is first run.
#[test]
fn a_class_in_node_that_sets_no_name_is_found_on_the_line_that_threw() {
    let kind = DiagnosisKind::UncaughtException;
    // The line, the mark below it, what Node 20 and 24 print, and where the stack begins.
    for (line, mark, head, frame, name) in [
        ("class A extends Error{}; const e=new A(\"x\"); throw e", 45, "Error: x", "[eval]:1:34", "A"),
        (
            "class A extends Error{}; function f(){return new A(\"x\")}; throw f()",
            58,
            "Error: x",
            "f ([eval]:1:46)",
            "A",
        ),
        (
            "class A extends Error{}; Error.stackTraceLimit=1; const e=new A('x'); e.k=1; throw e",
            77,
            "Error: x",
            "[eval]:1:59 {",
            "A",
        ),
        (
            "class A extends TypeError{}; const s='\u{fc}\u{20ac}'; const e=new A('x'); throw e",
            63,
            "TypeError: x",
            "[eval]:1:52",
            "A",
        ),
        ("class A extends Error{}; '\u{fc}\u{20ac}'; throw new A('x')", 31, "Error: x", "[eval]:1:38", "A"),
        (
            "const e=new TypeError(\"x\"); e.name=\"FooError\"; throw e",
            47,
            "FooError: x",
            "[eval]:1:9",
            "FooError",
        ),
        ("try { new Array(-1) } catch (e) { throw e }", 34, "RangeError: x", "[eval]:1:7", "RangeError"),
        ("const a = {}; new a.Thing()", 14, "TypeError: x", "[eval]:1:15", "TypeError"),
        // Of a line that is not printed nothing is known.
        ("throw e;", 0, "Error: x", "[eval]:2:11", "Error"),
        ("throw e;", 0, "A [Error]: x", "[eval]:2:11", "A"),
        ("throw e;", 0, "Error: x", "[eval]:1:99", "Error"),
        ("throw e;", 0, "Error: x", "[eval]:1:0", "Error"),
    ] {
        let mark = " ".repeat(mark);
        let text = format!(
            "[eval]:1\n{line}\n{mark}^\n\n{head}\n    at {frame}\n    at [eval]-wrapper:6:24\n\nNode.js v24.19.0\n"
        );
        assert_eq!(all(Language::Node, &text), is(kind, name, "x"), "{text}");
    }
}

#[test]
fn memory_that_ran_out_is_told_however_the_program_ended() {
    let of = |found: Option<Diagnosis>| found.map(|found| found.kind());
    let memory = Some(DiagnosisKind::OutOfMemory);
    let heap = "<--- Last few GCs --->\n\n\
        FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n\
        ----- Native stack trace -----\n";
    assert_eq!(of(diagnose(&ended(Some(Language::Node), None, heap))), memory);
    assert_eq!(of(diagnose(&ended(None, Some(134), heap))), memory, "run by a shell");
    let python =
        "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nMemoryError\n";
    assert_eq!(of(diagnose(&ended(Some(Language::Python), Some(1), python))), memory);
    let killed = Ended { out_of_memory: true, ..ended(None, Some(137), "Killed\n") };
    assert_eq!(of(diagnose(&killed)), memory, "a process of it was killed");
}

#[test]
fn a_fault_of_a_program_in_a_shell_is_a_crash() {
    let text = "bash: line 1: 22136 Segmentation fault      python3 -c 'x'\n";
    assert_eq!(told(None, 139, text), Some((DiagnosisKind::Crashed, "SIGSEGV".into())));
    assert_eq!(told(Some(Language::Bash), 134, ""), Some((DiagnosisKind::Crashed, "SIGABRT".into())));
    assert_eq!(told(None, 130, ""), None, "who is interrupted has not crashed");
}

#[test]
fn code_that_prints_nothing_is_told_and_a_command_is_not() {
    let silent = |language| {
        let found = diagnose(&Ended { silent: true, ..ended(language, Some(0), "") });
        found.map(|found| found.kind())
    };
    assert_eq!(silent(Some(Language::Python)), Some(DiagnosisKind::EmptyOutput));
    assert_eq!(silent(Some(Language::Node)), Some(DiagnosisKind::EmptyOutput));
    assert_eq!(silent(Some(Language::Bash)), None);
    assert_eq!(silent(None), None);
}

#[test]
fn python_in_a_shell_is_understood_too() {
    let text = "Traceback (most recent call last):\n  File \"/home/user/a.py\", line 1, in <module>\n\
                ModuleNotFoundError: No module named 'left_pad'\n";
    assert_eq!(told(None, 1, text), Some((DiagnosisKind::MissingModule, "left_pad".into())));
}

#[test]
fn no_words_are_too_many_or_too_strange() {
    let long =
        format!("Traceback (most recent call last):\n{}: {}\n", "X".repeat(9_999), "\u{e9}".repeat(9_999));
    let found = diagnose(&ended(Some(Language::Python), Some(1), &long)).expect("a diagnosis");
    assert!(found.subject.len() <= 256 && found.message.len() <= 256);
    let strange = [
        "",
        "\n",
        "^\n",
        "a:1\n\n^",
        "a:1\nx\n^",
        "  + Exception Group Traceback (most recent call last):",
        "Traceback (most recent call last):",
        "'",
        "\u{2018}",
        ": Permission denied",
        "a:1\n\u{e9}\n ^\nE: x",
        "  + Exception Group Traceback (most recent call last):\n  | \n  +- 1 ----------------",
    ];
    for text in strange {
        for language in [None, Some(Language::Python), Some(Language::Node), Some(Language::Bash)] {
            for code in [None, Some(0), Some(1), Some(127), Some(139)] {
                let _ = diagnose(&ended(language, code, text));
            }
        }
    }
}
