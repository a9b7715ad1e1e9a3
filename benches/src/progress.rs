//! What is going on, for a person: a line that changes on a terminal, the scenario's name elsewhere.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often the line on a terminal moves.
const TICK: Duration = Duration::from_millis(120);

/// The line.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    last: Mutex<String>,
}

impl Progress {
    /// Starts.
    #[must_use]
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, last: Mutex::default() }
    }

    /// Says what is being done now.
    pub fn say(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            return;
        }
        // In a log one line for each thing is enough, however often it is done.
        let head = what.split(':').next().unwrap_or(what);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.split('\n').any(|line| line == head) {
            eprintln!("bench: {what}");
            last.push('\n');
            last.push_str(head);
        }
    }

    /// Says something that stays.
    pub fn note(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("bench: {what}")),
            None => eprintln!("bench: {what}"),
        }
    }

    /// Ends the line.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
