//! The first program of a fresh clone, as a caller asks for it and as a plain interpreter runs it.
//!
//! `code` is what callers send; the plain one is the interpreter as a command, which starts from nothing. The
//! time is that of the execution alone, from request to result: the clone is there already.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rekindle::agent::{AgentClient, Code, Command, ExecuteRequest, Language, Outcome, Program};

use super::Scenario;
use crate::bed::{Bed, PATIENCE};
use crate::page_cache;
use crate::record::{Kind, PageCache, Record, Sample};

/// A program in a language, and how its plain interpreter is called.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The scenario.
    pub scenario: Scenario,
    language: Language,
    interpreter: [&'static str; 2],
    source: &'static str,
    output: &'static str,
}

/// A line of Python.
pub const PYTHON: Run = Run {
    scenario: Scenario::FirstPython,
    language: Language::Python,
    interpreter: ["python3", "-c"],
    source: "print(6 * 7)",
    output: "42\n",
};
/// A line of JavaScript.
pub const NODE: Run = Run {
    scenario: Scenario::FirstNode,
    language: Language::Node,
    interpreter: ["node", "-e"],
    source: "console.log(6 * 7)",
    output: "42\n",
};
/// Python with the libraries for data.
pub const DATA: Run = Run {
    scenario: Scenario::PythonData,
    language: Language::Python,
    interpreter: ["python3", "-c"],
    source: "import numpy, pandas; print(pandas.DataFrame({'x': numpy.arange(4)}).x.sum())",
    output: "6\n",
};

/// One clone for each of the two ways.
///
/// # Errors
/// When a program does not print what it should.
pub async fn sample(bed: &Bed, run: &Run, record: &mut Record) -> Result<()> {
    let name = run.scenario.to_string();
    let kind = |name: &str, what: &str| Kind::time(run.scenario, name, what).with_cache(PageCache::Hot);
    let took = first(bed, run, run.code()).await?;
    record.add(kind(&name, "the first execution, as `code`"), Sample::of(took));
    let took = first(bed, run, run.plain()).await?;
    record.add(kind(&format!("{name}_plain"), "the first execution, a plain interpreter"), Sample::of(took));
    Ok(())
}

async fn first(bed: &Bed, run: &Run, program: Program) -> Result<Duration> {
    page_cache::warm(&bed.read_by_restore())?;
    let vm = bed.clone().await?;
    let took = run.execute(vm.agent(), program).await;
    vm.stop().await;
    took
}

impl Run {
    /// The program as callers send it.
    #[must_use]
    pub fn code(&self) -> Program {
        Program::Code(Code { language: self.language as i32, source: self.source.to_owned() })
    }

    /// The program as a plain interpreter runs it.
    #[must_use]
    pub fn plain(&self) -> Program {
        let [interpreter, flag] = self.interpreter;
        command(&[interpreter, flag, self.source])
    }

    /// Runs the program in one of its forms, and says how long that took, from request to result.
    ///
    /// # Errors
    /// When it does not end well, or prints something else.
    pub async fn execute(&self, agent: &AgentClient, program: Program) -> Result<Duration> {
        Ok(execute(agent, program, self.output).await?.0)
    }
}

/// A command of these words.
#[must_use]
pub fn command(words: &[&str]) -> Program {
    Program::Command(Command { argv: words.iter().map(|word| word.as_bytes().to_vec().into()).collect() })
}

/// Runs a program that prints `output`, and says how long that took, from request to result, and how much of it was
/// the program's own time as the guest measured it.
///
/// # Errors
/// When it does not end well, or prints something else.
pub async fn execute(agent: &AgentClient, program: Program, output: &str) -> Result<(Duration, Duration)> {
    let request = ExecuteRequest {
        program: Some(program),
        timeout_millis: u64::try_from(PATIENCE.as_millis())?,
        ..ExecuteRequest::default()
    };
    let begun = Instant::now();
    let finished = agent.run(request).await?;
    let took = begun.elapsed();
    ensure!(
        finished.outcome == Outcome::Exited(0) && finished.stdout.text == output,
        "it ended as {:?} and printed {:?}: {}",
        finished.outcome,
        finished.stdout.text,
        finished.stderr.text
    );
    Ok((took, Duration::from_micros(finished.usage.wall_micros)))
}
