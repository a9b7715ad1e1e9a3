//! Shows what a long command is doing: a spinner with the step and the time, plain lines where nobody looks.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rekindle::vm::BuildStep;

/// A long command under way.
pub struct Progress {
    what: String,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins.
    pub fn start(what: String) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { what, started: Instant::now(), bar }
    }

    /// Says what is done now.
    pub fn step(&self, step: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(step.to_owned()),
            None => eprintln!("{}: {step}", self.what),
        }
    }

    /// Says which step of a template's build is done now.
    pub fn build_step(&self, step: &BuildStep) {
        match step {
            BuildStep::Boot => self.step("booting"),
            BuildStep::Warmup { number, total } => {
                self.step(&format!("warming up, step {number} of {total}"));
            }
            BuildStep::Ready => self.step("checking that it is ready"),
            BuildStep::Warm => self.step("starting the interpreters that are kept warm"),
            BuildStep::Freeze => self.step("freezing"),
            BuildStep::Publish => self.step("hashing and publishing"),
            BuildStep::WorkingSet => self.step("looking at a first clone"),
        }
    }

    /// Ends with a line that stays.
    pub fn done(&self, outcome: &str) {
        self.clear();
        eprintln!("{}: {outcome} in {:.1} s", self.what, self.started.elapsed().as_secs_f64());
    }

    /// Ends without a trace.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
