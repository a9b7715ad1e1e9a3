//! What Python prints of an exception that nobody caught.

use rekindle_protocol::failure::{self, Kind};
use rekindle_protocol::wire::{DiagnosisKind, Language};

use super::Found;

/// The line before a stack.
pub(super) const HEADER: &str = "Traceback (most recent call last):";
/// The lines between an exception and the one that came of it.
const LINKS: [&str; 2] = [
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
];
/// Exceptions of a group that are named.
const MAX_MEMBERS: usize = 8;

/// What ended a program that failed.
pub(super) fn uncaught(stderr: &str) -> Option<Found> {
    let found = match last_traceback(stderr) {
        Some(Traceback { background: true, .. }) => return background(stderr),
        Some(traceback) => exception(&traceback.exception()?),
        // Source that cannot be parsed has no stack; of a stack that was cut out, the last line is left.
        None => {
            let line = stderr.lines().rev().find(|line| is_exception(line))?;
            let parsed = exception(&(line.to_owned(), Vec::new()));
            let cut = stderr.contains("  File \"");
            Some(parsed?).filter(|found| cut || found.kind == DiagnosisKind::SyntaxError)
        }
    };
    found.map(|found| found.of(Language::Python))
}

/// An exception in a thread, in a process of `multiprocessing`, or in a task that nobody waited for. The program goes
/// on without it.
pub(super) fn background(stderr: &str) -> Option<Found> {
    let traceback = last_traceback(stderr).filter(|traceback| traceback.background)?;
    let (line, members) = traceback.exception()?;
    let (name, message) = split(&line);
    let message = with_members(message, &members);
    Some(Found::new(DiagnosisKind::BackgroundException, name, &message).of(Language::Python))
}

/// A stack and what follows it.
struct Traceback<'a> {
    /// The lines after its header.
    lines: Vec<&'a str>,
    /// It is that of a group of exceptions.
    group: bool,
    /// It ended a thread, a child process or a task, not the program.
    background: bool,
}

fn last_traceback(stderr: &str) -> Option<Traceback<'_>> {
    let lines: Vec<&str> = stderr.lines().collect();
    let group = |line: &str| line.strip_prefix("  + Exception Group ").is_some_and(|rest| rest == HEADER);
    let header = |line: &&str| *line == HEADER || group(line);
    let at = lines.iter().rposition(header)?;
    // What it was that ended is told above the first exception of a chain.
    let mut first = at;
    while let [above @ .., link, ""] = &lines[..first]
        && LINKS.contains(link)
        && let Some(earlier) = above.iter().rposition(header)
    {
        first = earlier;
    }
    let background = match &lines[..first] {
        [.., line] if in_thread(line) => true,
        // A program may begin its own words so: the stack of a child of `multiprocessing` begins there as well.
        [.., line] if line.starts_with("Process ") => {
            lines.get(at + 1).is_some_and(|frame| frame.ends_with(", in _bootstrap"))
        }
        // The task is on the line below.
        [.., line, _] => line.ends_with(" exception was never retrieved"),
        _ => false,
    };
    Some(Traceback { lines: lines[at + 1..].to_vec(), group: group(lines[at]), background })
}

/// `Exception in thread Thread-1 (f):`, and what `_thread` alone has started.
fn in_thread(line: &str) -> bool {
    ["Exception in thread ", "Exception ignored in thread started by"]
        .iter()
        .any(|words| line.starts_with(words))
}

impl Traceback<'_> {
    /// The line that names the exception, and the exceptions in it.
    fn exception(&self) -> Option<(String, Vec<String>)> {
        if !self.group {
            let line = self.lines.iter().find(|line| !line.starts_with(' ') && !line.is_empty())?;
            return Some(((*line).to_owned(), Vec::new()));
        }
        let own = self.lines.iter().filter_map(|line| line.strip_prefix("  | "));
        let line = own.clone().find(|line| !line.starts_with(' ') && !line.is_empty())?;
        // Each member begins below a line like `+---------------- 1 ----------------`.
        let mut members = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let ruled = line.trim_start().starts_with('+') && line.ends_with(" ----------------");
            if !ruled || members.len() == MAX_MEMBERS {
                continue;
            }
            let inside = self.lines[at + 1..].iter().map_while(|line| line.trim_start().strip_prefix("| "));
            let named = inside.filter(|line| !line.starts_with(' ') && *line != HEADER);
            members.extend(named.map(|line| split(line).0.to_owned()).next());
        }
        Some((line.to_owned(), members))
    }
}

fn exception((line, members): &(String, Vec<String>)) -> Option<Found> {
    let (name, message) = split(line);
    if !is_name(name) {
        return None;
    }
    let (kind, subject) = failure::python(name, message);
    Some(match kind {
        Kind::Other => Found::new(super::kind(kind), subject, &with_members(message, members)),
        _ => Found::new(super::kind(kind), subject, message),
    })
}

fn with_members(message: &str, members: &[String]) -> String {
    if members.is_empty() { message.to_owned() } else { format!("{message}: {}", members.join(", ")) }
}

/// The name and the message of `name: message`.
fn split(line: &str) -> (&str, &str) {
    line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""))
}

/// Whether a line, found anywhere, is likely to name an exception.
fn is_exception(line: &str) -> bool {
    let name = split(line).0;
    is_name(name) && name.rsplit('.').next().is_some_and(|last| last.starts_with(char::is_uppercase))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.<>".contains(c))
}
