//! The rules of a server's sandboxes, in sentences for a model: the one source of what `rekindle prompt` prints and of
//! what the descriptions of the tools say. Every number and name in them is the server's.

use std::time::Duration;

use rekindle_api::time::from_duration;
use rekindle_api::v1::{NetworkPolicy, Template};

use super::facts::Facts;
use super::line::one_line;
use super::packages;

/// Rules of a network policy that are named; there may be a thousand.
const MOST_RULES: usize = 40;

/// The rules of one template under one network policy.
#[derive(Debug)]
pub struct Rules<'a> {
    facts: &'a Facts,
    template: &'a Template,
    network: &'a str,
}

impl<'a> Rules<'a> {
    /// The rules of a template, by its name or empty for the server's default, under a policy. `None` where there is no
    /// such template.
    #[must_use]
    pub fn of(facts: &'a Facts, template: &str, network: &'a str) -> Option<Self> {
        Some(Self { facts, template: facts.template(template)?, network })
    }

    /// Everything, one rule to a line: a part of a system prompt.
    #[must_use]
    pub fn prompt(&self) -> String {
        let lines = [
            self.machine(),
            self.process(),
            self.installed(),
            self.network(),
            self.time_limit(),
            self.output(),
            self.files(),
            self.lifetime(None),
            self.ids(),
        ];
        let lines: Vec<String> = lines.into_iter().map(|line| format!("- {line}\n")).collect();
        format!("Rules of the sandboxes that code runs in:\n{}", lines.concat())
    }

    /// What a sandbox is.
    pub(super) fn machine(&self) -> String {
        let Template { name, description, vcpus, memory_bytes, disk_bytes, .. } = self.template;
        let processors = if *vcpus == 1 { "processor" } else { "processors" };
        format!(
            "A sandbox is a Linux virtual machine of its own with {vcpus} {processors}, {} of memory and {} of disk; its \
             template is {}: {}.",
            size(*memory_bytes),
            size(*disk_bytes),
            one_line(name),
            one_line(description).trim_end_matches('.')
        )
    }

    /// What does not persist.
    pub(super) fn process(&self) -> String {
        "Every run is a new process: variables, imports, functions, exported environment and the working directory of \
         an earlier run are gone. Nothing but files persists, until the sandbox ends. A process that a run leaves in \
         the background goes on; send its output to a file, or it is lost."
            .to_owned()
    }

    /// What is installed.
    pub(super) fn installed(&self) -> String {
        match packages::installed(&self.template.packages) {
            Some(installed) => format!(
                "Installed: {installed}. Do not assume anything else: look with `command -v NAME` or \
                 `python3 -c \"import NAME\"` first."
            ),
            None => "What is installed is not known beforehand: look with `command -v NAME` or \
                     `python3 -c \"import NAME\"` before you rely on it."
                .to_owned(),
        }
    }

    /// What network there is.
    pub(super) fn network(&self) -> String {
        let nothing = "There is no network: downloads, pip, npm, apt and git clone fail, and trying again does not help. \
                       Use what is installed and what is written into the sandbox.";
        match self.facts.network(self.network) {
            None if matches!(self.network, "" | "none") => nothing.to_owned(),
            None => format!(
                "The network policy {} is none that this caller may choose: a sandbox cannot be made with it.",
                one_line(self.network)
            ),
            Some(policy) => policy_sentence(policy, nothing),
        }
    }

    /// How long a run may take.
    pub(super) fn time_limit(&self) -> String {
        let rules = &self.facts.rules;
        let told = |time: Option<rekindle_api::Duration>| time.and_then(from_duration).map(span);
        let usual = told(rules.execute_timeout).unwrap_or_else(|| "the server's time limit".to_owned());
        let most = told(rules.max_execute_timeout).unwrap_or_else(|| "the server's maximum".to_owned());
        format!(
            "A run that takes longer than {usual} is killed with all its processes, unless it asks for more time, at \
             most {most}."
        )
    }

    /// What of the output is returned.
    pub(super) fn output(&self) -> String {
        format!(
            "Output is cut: of stdout and of stderr at most {} characters each are returned, of more the beginning and \
             the end with a marker between them. The result then names the file in the sandbox that has all of it, \
             or its beginning where that is too long, which the result says: read the part you need, and print \
             less.",
            thousands(self.facts.rules.output_limit)
        )
    }

    /// Where files are.
    pub(super) fn files(&self) -> String {
        "Programs start in the home directory of the sandbox's user, and relative paths begin there. Files of the user's \
         computer are not in the sandbox unless they were written into it."
            .to_owned()
    }

    /// How long a sandbox lives: as it was asked for, or as the server decides.
    pub(super) fn lifetime(&self, asked: Option<(Duration, Duration)>) -> String {
        let rules = &self.facts.rules;
        let (ttl, idle) = match asked {
            Some((ttl, idle)) => (Some(ttl), Some(idle).filter(|idle| !idle.is_zero())),
            None => (rules.ttl.and_then(from_duration), rules.idle_timeout.and_then(from_duration)),
        };
        let mut text = match ttl {
            Some(ttl) => {
                format!("A sandbox ends {} after it was made unless another time was asked for", span(ttl))
            }
            None => "A sandbox ends when its time is over".to_owned(),
        };
        if let Some(idle) = idle {
            text.push_str(&format!(", and after {} without a call", span(idle)));
        }
        text + ". Its files are gone then, and its id is of no use any more."
    }

    /// Where ids come from.
    pub(super) fn ids(&self) -> String {
        "Ids of sandboxes are never made up: use one that was returned when the sandbox was made, or that the user gave."
            .to_owned()
    }
}

fn policy_sentence(policy: &NetworkPolicy, nothing: &str) -> String {
    let name = one_line(&policy.name);
    if policy.everything {
        return format!(
            "The network policy is {name}: every public host can be reached, private addresses cannot. Nobody outside \
             can reach the sandbox by it."
        );
    }
    if policy.rules.is_empty() {
        return nothing.to_owned();
    }
    if let [rule] = &policy.rules[..]
        && rule.starts_with("replay ")
    {
        return format!(
            "The network policy is {name}: nothing outside is reached. Requests over HTTP and HTTPS that were recorded are \
             answered from the recording; all others are denied, and trying again does not help."
        );
    }
    let mut rules: Vec<String> = policy.rules.iter().take(MOST_RULES).map(|rule| one_line(rule)).collect();
    if policy.rules.len() > MOST_RULES {
        rules.push(format!("{} more", policy.rules.len() - MOST_RULES));
    }
    format!(
        "The network policy is {name}: only these hosts can be reached, by name: {}. Every other connection is denied, \
         and trying again does not help.",
        rules.join(", ")
    )
}

/// An amount of bytes as people write it.
pub(super) fn size(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1 << 30 { (1 << 30, "GiB") } else { (1 << 20, "MiB") };
    if bytes < 1 << 20 {
        return format!("{bytes} bytes");
    }
    if bytes.is_multiple_of(unit) {
        format!("{} {name}", bytes / unit)
    } else {
        format!("{:.1} {name}", bytes as f64 / unit as f64)
    }
}

/// A time as people write it.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        _ if seconds >= 7_200 && seconds.is_multiple_of(3_600) => format!("{} hours", seconds / 3_600),
        _ if seconds >= 120 && seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        1 => "1 second".to_owned(),
        0 => format!("{} ms", time.as_millis()),
        _ => format!("{seconds} seconds"),
    }
}

fn thousands(number: u32) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

#[cfg(test)]
mod tests;
