//! The programs of contexts, on this machine's own interpreters: what they answer is read as a guest's answers are.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use super::CodeLanguage;
use crate::agent::Program;
use crate::service::interpreter::events::{CodeEvent, Said, read};
use crate::service::interpreter::frames::{Frame, Frames};

/// A context's program.
struct Running {
    language: CodeLanguage,
    child: Child,
    output: JoinHandle<Vec<u8>>,
    errors: JoinHandle<Vec<u8>>,
    runs: u64,
}

/// What one run has told.
#[derive(Debug, Default)]
struct Told {
    events: Vec<CodeEvent>,
    printed: String,
}

impl Told {
    /// The forms of its results, by name.
    fn form(&self, name: &str) -> Vec<&str> {
        let results = self.events.iter().filter_map(|event| match event {
            CodeEvent::Result(result) => Some(result),
            _ => None,
        });
        let forms = results.flat_map(|result| result.texts.iter().chain(&result.json));
        forms.filter(|(known, _)| *known == name).map(|(_, form)| form.as_str()).collect()
    }

    fn error(&self) -> Option<(&str, &str)> {
        self.events.iter().find_map(|event| match event {
            CodeEvent::Error(error) => Some((error.name.as_str(), error.value.as_str())),
            _ => None,
        })
    }
}

impl Running {
    /// Starts it; nothing where this machine has no such interpreter.
    fn start(language: CodeLanguage) -> Option<Self> {
        let Program::Code(code) = language.program() else { return None };
        let words: &[&str] = match language {
            CodeLanguage::Python => &["python3", "-c"],
            CodeLanguage::JavaScript | CodeLanguage::TypeScript => &["node", "-e"],
            CodeLanguage::Bash => &["bash", "-c"],
        };
        let (program, words) = words.split_first()?;
        let mut child = Command::new(program)
            .args(words)
            .arg(code.source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let (output, errors) = (collected(child.stdout.take()?), collected(child.stderr.take()?));
        Some(Self { language, child, output, errors, runs: 0 })
    }

    fn ask(&mut self, code: &str, env: &[(&str, &str)]) {
        self.runs += 1;
        let env: BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = self.language.request(self.runs, code, &env);
        self.child.stdin.as_mut().expect("an input").write_all(&request).expect("asked");
    }

    /// Ends its input, and tells of every run.
    fn finish(mut self) -> Vec<Told> {
        drop(self.child.stdin.take());
        let (output, errors) = (self.output.join().expect("read"), self.errors.join().expect("read"));
        assert!(self.child.wait().expect("ended").success(), "{}", String::from_utf8_lossy(&errors));
        let ends = |stream: &[u8]| stream.windows(8).filter(|part| part.starts_with(b"\x1e.{")).count();
        assert!(ends(&errors) as u64 >= 2 * self.runs, "both streams say where runs begin and end");
        let mut frames = Frames::default();
        frames.push(&output);
        let (mut told, mut last) = (Vec::new(), Told::default());
        while let Some(frame) = frames.next() {
            match frame {
                Frame::Printed(bytes) => last.printed += &String::from_utf8_lossy(&bytes),
                Frame::TooLong => panic!("a message is too long"),
                Frame::Message(bytes) => match read(&bytes) {
                    Said::Begin(_) => last = Told::default(),
                    Said::End(_) => told.push(std::mem::take(&mut last)),
                    Said::Event(event) => last.events.push(event),
                    Said::Nothing => {}
                },
            }
        }
        assert_eq!(told.len() as u64, self.runs);
        told
    }
}

fn collected(mut stream: impl std::io::Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

#[test]
fn python_remembers_shows_fails_and_puts_variables_back() {
    let Some(mut python) = Running::start(CodeLanguage::Python) else {
        rekindle_test_support::skip!("no python3")
    };
    let big = "class Big:\n    def _repr_html_(self): return 'x' * 100_000\nBig()";
    for code in [
        "import os\nx = 1\nprint('hi')\nos.environ['WORD']",
        "    x += 1\n    (x, os.environ.get('WORD'))",
        "def f():\n    return nothing\nf()",
        "f(",
        "!echo from a shell",
        "import asyncio\nawait asyncio.sleep(0, {'a': [float('nan'), 2]})",
        big,
        "x;",
        "raise SystemExit(3)",
        "display('shown')\nNone",
        "%pwd",
    ] {
        let env: &[_] = if python.runs == 0 { &[("WORD", "it's")] } else { &[] };
        python.ask(code, env);
    }
    let told = python.finish();
    assert_eq!((told[0].printed.as_str(), told[0].form("text")), ("hi\n", vec!["it's"]));
    assert_eq!(told[1].form("text"), ["(2, None)"]);
    assert_eq!(told[2].error(), Some(("NameError", "name 'nothing' is not defined")));
    assert_eq!(told[3].error().map(|error| error.0), Some("SyntaxError"));
    assert_eq!(told[4].printed, "from a shell\n");
    assert_eq!(told[5].form("json"), [r#"{"a": [null, 2]}"#]);
    assert_eq!(told[6].form("html")[0].len(), 100_000, "in pieces");
    assert!(told[7].form("text").is_empty(), "a semicolon keeps quiet");
    assert_eq!(told[8].error(), Some(("SystemExit", "3")));
    assert_eq!(told[9].form("text"), ["shown"]);
    assert_eq!(told[10].form("text").len(), 1);
}

#[test]
fn javascript_remembers_shows_fails_and_waits() {
    let Some(mut node) = Running::start(CodeLanguage::JavaScript) else {
        rekindle_test_support::skip!("no node")
    };
    for code in [
        "const a = 1; console.log('hi'); process.env.WORD",
        "const a = await Promise.resolve(5); [a, process.env.WORD]",
        "nothing",
        "import { join } from 'path'\nimport fs from 'node:fs'\njoin('a', typeof fs.readFileSync)",
        "throw 'no error'",
        "syntax error",
        "undefined",
        "class TooLarge extends RangeError {}; const failed = new TooLarge('l'); throw failed",
        "class Late extends TooLarge {}; await Promise.reject(new Late('m'))",
        "throw Object.assign(new TooLarge('n'), { name: 'Named' })",
        "class Wrong extends Error { get name() { return 'WrongInput' } }; throw new Wrong('o')",
        "throw new DOMException('p', 'TimeoutError')",
        "throw new Proxy({}, { get() { throw 1 }, has() { throw 2 }, getPrototypeOf() { throw 3 } })",
    ] {
        let env: &[_] = if node.runs == 0 { &[("WORD", "there")] } else { &[] };
        node.ask(code, env);
    }
    let told = node.finish();
    assert_eq!((told[0].printed.as_str(), told[0].form("text")), ("hi\n", vec!["there"]));
    assert_eq!(told[1].form("json"), ["[5,null]"]);
    assert_eq!(told[2].error(), Some(("ReferenceError", "nothing is not defined")));
    assert_eq!(told[3].form("text"), ["a/function"]);
    assert_eq!(told[4].error(), Some(("Error", "'no error'")));
    assert_eq!(told[5].error().map(|error| error.0), Some("SyntaxError"));
    assert!(told[6].form("text").is_empty());
    let errors: Vec<_> = told[7..].iter().filter_map(Told::error).collect();
    let named =
        [("TooLarge", "l"), ("Late", "m"), ("Named", "n"), ("WrongInput", "o"), ("TimeoutError", "p")];
    assert_eq!(errors[..5], named, "by their class, where it has no other name");
    assert_eq!(errors[5..], [("Error", "<an error that cannot be shown>")], "its run ends, too");
}

#[test]
fn bash_remembers_fails_and_puts_variables_back() {
    let Some(mut bash) = Running::start(CodeLanguage::Bash) else { rekindle_test_support::skip!("no bash") };
    bash.ask("word=there; cd /; echo $OTHER", &[("OTHER", "it's; echo no")]);
    bash.ask("echo $word $PWD ${OTHER:-none}; (exit 3)", &[]);
    bash.ask("cat; false", &[("A", "1")]);
    let told = bash.finish();
    assert_eq!(told[0].printed, "it's; echo no\n");
    assert_eq!((told[1].printed.as_str(), told[1].error()), ("there / none\n", Some(("ExitStatus", "3"))));
    assert_eq!(told[2].error(), Some(("ExitStatus", "1")), "there is no input");
}
