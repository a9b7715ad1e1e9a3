//! Where the time of a run went: one row for each step, and for each test program of `cargo test`.
//!
//! The table says where a slow run can be made faster; nothing is judged by it.

use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shorter steps share a row.
const SHORT: Duration = Duration::from_secs(5);

/// The steps so far.
#[derive(Default)]
pub struct Timing {
    rows: Vec<(String, Duration)>,
}

/// The test program that cargo started last.
#[derive(Default)]
pub struct Program(Mutex<String>);

impl Program {
    /// Takes in one line of what cargo says.
    fn read(&self, line: &str) {
        let text = line.trim_start();
        if text.starts_with("Running ") || text.starts_with("Doc-tests ") {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = program(text);
        }
    }

    fn name(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Prints what cargo says, which names each program before it runs. Nobody waits for the end of it: a process
/// that a test left behind may hold the pipe.
pub fn follow(output: impl Read + Send + 'static) -> Arc<Program> {
    let program = Arc::new(Program::default());
    let seen = Arc::clone(&program);
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            eprintln!("{line}");
            seen.read(&line);
        }
    });
    program
}

impl Timing {
    /// Does a step and notes how long it took.
    pub fn measure<T>(&mut self, step: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.rows.push((step.to_owned(), began.elapsed()));
        result
    }

    /// Takes in one line of what a test program prints.
    pub fn read(&mut self, line: &str, program: &Program) {
        if let Some(took) = took(line) {
            self.rows.push((program.name(), took));
        }
    }

    /// The table, in the order in which things happened.
    pub fn table(&self) -> String {
        let whole: Duration = self.rows.iter().map(|(_, took)| *took).sum();
        let (long, short): (Vec<_>, Vec<_>) = self.rows.iter().partition(|(_, took)| *took >= SHORT);
        let mut text = format!("\nwhere the time went, {} in all:\n", minutes(whole));
        for (step, took) in long {
            let _ = writeln!(text, "  {:>8}  {step}", minutes(*took));
        }
        if !short.is_empty() {
            let rest = short.iter().map(|(_, took)| *took).sum();
            let _ = writeln!(text, "  {:>8}  {} shorter steps", minutes(rest), short.len());
        }
        text
    }
}

/// The program in cargo's "Running tests/grpc/main.rs (target/debug/deps/grpc-0123456789abcdef)".
fn program(line: &str) -> String {
    let path = line.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let file = path.and_then(|path| path.rsplit('/').next());
    let name = file.map(|file| file.rsplit_once('-').map_or(file, |(name, _)| name));
    name.map_or_else(|| line.to_owned(), |name| format!("tests of {name}"))
}

/// The time in libtest's "test result: ok. 5 passed; …; finished in 0.12s".
fn took(line: &str) -> Option<Duration> {
    let (_, seconds) = line.strip_prefix("test result: ")?.rsplit_once("finished in ")?;
    Duration::try_from_secs_f64(seconds.strip_suffix('s')?.parse().ok()?).ok()
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_a_row_and_short_steps_share_one() {
        let mut timing = Timing::default();
        timing.measure("cargo fmt", || ());
        let program = Program::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/rekindle-0123456789abcdef)",
            "running 2 tests",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 75.50s",
            "     Running tests/corpus.rs (target/debug/deps/corpus-0123456789abcdef)",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; finished in 1.25s",
            "   Doc-tests rekindle",
            "test result: ok. 1 passed; 0 failed; 0 ignored; finished in 8.00s",
        ] {
            program.read(line);
            timing.read(line, &program);
        }
        assert_eq!(
            timing.table(),
            "\nwhere the time went, 1:24 in all:\n\
             \x20     1:15  tests of rekindle\n\
             \x20     0:08  Doc-tests rekindle\n\
             \x20     0:01  2 shorter steps\n"
        );
    }
}
