//! What a model reads of a run that has ended: one line about it, then what it printed. A guest's words come after that
//! line and cannot be taken for it. Pure.

use rekindle_api::time::from_duration;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::{Diagnosis, ExecuteResponse, Output};

use super::line::{one_line, path};
use super::rules::size;

/// The argument of the tool that bounds a run's time.
const LIMIT: &str = "timeout_seconds";
const TIMED_OUT: &str = "do less in one run, or allow more with timeout_seconds";
const OUT_OF_MEMORY: &str = "use less memory, such as by reading data in pieces";

/// The result as text.
pub(super) fn text(response: &ExecuteResponse) -> String {
    let mut text = header(response);
    let mut printed = false;
    for (name, output) in [("stdout", &response.stdout), ("stderr", &response.stderr)] {
        let Some(output) = output.as_ref().filter(|output| !output.text.is_empty()) else { continue };
        printed = true;
        text.push_str(&format!("\n{name}:\n{}", output.text.trim_end_matches('\n')));
    }
    if !printed {
        text.push_str("\n(nothing was printed)");
    }
    text
}

/// The first line: how it ended, how long it took, what was cut and where all of it is, and what may be done about it.
fn header(response: &ExecuteResponse) -> String {
    let outcome = response.outcome.as_ref().and_then(|outcome| outcome.outcome.as_ref());
    let usage = response.usage.unwrap_or_default();
    let mut parts = vec![match outcome {
        Some(Outcome::ExitCode(code)) => format!("exit {code}"),
        Some(Outcome::Signal(signal)) => format!("killed by signal {signal}"),
        Some(Outcome::TimedOut(_)) => "timed out".to_owned(),
        Some(Outcome::OutOfMemory(_)) => "out of memory".to_owned(),
        Some(Outcome::Cancelled(_)) => "cancelled".to_owned(),
        None => "ended in a way that this version does not know".to_owned(),
    }];
    if let Some(time) = usage.wall_time.and_then(from_duration) {
        parts.push(format!("{:.2} s", time.as_secs_f64()));
    }
    let cut: Vec<String> = [("stdout", &response.stdout), ("stderr", &response.stderr)]
        .into_iter()
        .filter_map(|(name, output)| cut(name, output.as_ref()?))
        .collect();
    parts.push(if cut.is_empty() {
        "truncated: no".to_owned()
    } else {
        format!("truncated: {}", cut.join(", "))
    });
    if let Some(left) = response.turns_left {
        parts.push(format!("turns left: {left}"));
    }
    if !response.warning.is_empty() {
        parts.push(format!("warning: {}", one_line(&response.warning)));
    }
    if let Some(hint) = hint(response, outcome) {
        parts.push(format!("hint: {hint}"));
    }
    parts.join(" | ")
}

/// What was cut of a stream, and where the file is that has it. A spilled file has a bound too: what of the output is in
/// none is said.
fn cut(name: &str, output: &Output) -> Option<String> {
    if !output.truncated {
        return None;
    }
    let shown = output.text.chars().count();
    let lost = output.total_bytes.saturating_sub(output.spilled_bytes);
    let all = match (output.spilled_path.is_empty(), lost) {
        (true, _) => "the rest is lost".to_owned(),
        (false, 0) => format!("all of it: {}", path(&output.spilled_path)),
        (false, _) => format!(
            "only the first {} of its {} were kept, the rest is lost: {}",
            size(output.spilled_bytes),
            size(output.total_bytes),
            path(&output.spilled_path)
        ),
    };
    Some(format!("{name} ({shown} of {} characters; {all})", output.total_chars))
}

/// What to do about a run that did not end well: the server's guess knows most, then the denial of a connection, and
/// only without either what holds for every such end.
fn hint(response: &ExecuteResponse, outcome: Option<&Outcome>) -> Option<String> {
    let well = matches!(outcome, Some(Outcome::ExitCode(0)));
    // What it did not print, and what failed beside it.
    let beside = |found: &&Diagnosis| ["empty_output", "background_exception"].contains(&&found.kind[..]);
    if let Some(found) = response.diagnosis.as_ref().filter(|found| !well || beside(found)) {
        return Some(diagnosed(found));
    }
    if well {
        return None;
    }
    let denial = response.network.as_ref().and_then(|network| network.denials.first());
    if let Some(denial) = denial {
        return Some(format!("network_denied: {}", one_line(&denial.message)));
    }
    match outcome {
        Some(Outcome::TimedOut(_)) => Some(format!("timed_out: {TIMED_OUT}")),
        Some(Outcome::OutOfMemory(_)) => {
            let peak = response.usage.and_then(|usage| usage.memory_peak_bytes);
            let peak =
                peak.map(|bytes| format!(", the most it used was {}", size(bytes))).unwrap_or_default();
            Some(format!("out_of_memory: {OUT_OF_MEMORY}{peak}"))
        }
        _ => None,
    }
}

/// The guess at what went wrong, with its stable word first.
fn diagnosed(diagnosis: &Diagnosis) -> String {
    let (kind, subject) = (one_line(&diagnosis.kind), one_line(&diagnosis.subject));
    let advice = match diagnosis.kind.as_str() {
        // The server's own words, which know more.
        _ if !diagnosis.hint.is_empty() => &one_line(&diagnosis.hint),
        "missing_module" => "it is not installed; use one that is",
        "missing_command" => "it is not installed; use another command",
        "syntax_error" => "the code could not be read; nothing of it has run",
        "uncaught_exception" => "stderr says where",
        "network_denied" => "the network policy does not allow it; trying again does not help",
        "timed_out" => TIMED_OUT,
        "out_of_memory" => OUT_OF_MEMORY,
        _ => "see stderr",
    };
    // The server does not know what the tool calls it.
    let by = match diagnosis.kind.as_str() {
        "timed_out" if !advice.contains(LIMIT) => format!(" ({LIMIT} allows more)"),
        _ => String::new(),
    };
    if subject.is_empty() {
        format!("{kind}: {advice}{by}")
    } else {
        format!("{kind} {subject:?}: {advice}{by}")
    }
}

#[cfg(test)]
mod tests {
    //! The first line, and what a guest cannot do to it.

    use std::time::Duration;

    use rekindle_api::time::duration;
    use rekindle_api::v1::{ExecutionOutOfMemory, ExecutionOutcome, ExecutionTimedOut, ExecutionUsage};

    use super::*;

    fn ended(outcome: Outcome, stdout: &str, stderr: &str) -> ExecuteResponse {
        let output = |text: &str| Some(Output { text: text.into(), ..Output::default() });
        ExecuteResponse {
            outcome: Some(ExecutionOutcome { outcome: Some(outcome) }),
            stdout: output(stdout),
            stderr: output(stderr),
            usage: Some(ExecutionUsage {
                wall_time: Some(duration(Duration::from_millis(1_234))),
                memory_peak_bytes: Some(64 << 20),
                ..ExecutionUsage::default()
            }),
            ..ExecuteResponse::default()
        }
    }

    fn diagnosis(kind: &str, subject: &str) -> Diagnosis {
        Diagnosis { kind: kind.into(), subject: subject.into(), ..Diagnosis::default() }
    }

    fn first(response: &ExecuteResponse) -> String {
        text(response).lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn output_comes_after_one_line() {
        let response = ended(Outcome::ExitCode(0), "a\nb\n", "warned\n");
        assert_eq!(text(&response), "exit 0 | 1.23 s | truncated: no\nstdout:\na\nb\nstderr:\nwarned");
        let silent = ended(Outcome::ExitCode(3), "", "");
        assert_eq!(text(&silent), "exit 3 | 1.23 s | truncated: no\n(nothing was printed)");
    }

    #[test]
    fn what_was_cut_is_named_with_the_place_of_all_of_it() {
        let mut response = ended(Outcome::ExitCode(0), "0123", "");
        let output = response.stdout.as_mut().expect("an output");
        (output.truncated, output.total_chars, output.total_bytes) = (true, 90_000, 90_000);
        (output.spilled_path, output.spilled_bytes) = ("/spill/1/stdout".into(), 90_000);
        assert_eq!(
            first(&response),
            "exit 0 | 1.23 s | truncated: stdout (4 of 90000 characters; all of it: /spill/1/stdout)"
        );
        response.stdout.as_mut().expect("an output").spilled_path.clear();
        assert!(first(&response).contains("; the rest is lost)"));
    }

    #[test]
    fn what_even_the_file_does_not_have_is_never_called_all_of_it() {
        let mut response = ended(Outcome::ExitCode(0), "0123", "");
        let output = response.stdout.as_mut().expect("an output");
        (output.truncated, output.total_chars, output.total_bytes) = (true, 200 << 20, 200 << 20);
        (output.spilled_path, output.spilled_bytes) = ("/spill/1/stdout".into(), 64 << 20);
        assert_eq!(
            first(&response),
            "exit 0 | 1.23 s | truncated: stdout (4 of 209715200 characters; only the first 64 MiB of its 200 MiB were \
             kept, the rest is lost: /spill/1/stdout)"
        );
    }

    #[test]
    fn every_end_has_a_word_and_what_can_be_done() {
        let line = |outcome| first(&ended(outcome, "", ""));
        assert!(line(Outcome::Signal(11)).starts_with("killed by signal 11 | "));
        let timed_out = line(Outcome::TimedOut(ExecutionTimedOut {}));
        assert!(
            timed_out.starts_with("timed out | ")
                && timed_out.ends_with(&format!("hint: timed_out: {TIMED_OUT}")),
            "{timed_out}"
        );
        let memory = line(Outcome::OutOfMemory(ExecutionOutOfMemory {}));
        assert!(memory.starts_with("out of memory | ") && memory.ends_with("64 MiB"), "{memory}");
        let unknown = text(&ExecuteResponse::default());
        assert!(unknown.starts_with("ended in a way") && !unknown.contains("exit 0"), "{unknown}");
    }

    #[test]
    fn what_the_server_found_out_is_told_before_what_holds_for_every_such_end() {
        let told = |outcome, found: Diagnosis| {
            let mut response = ended(outcome, "", "");
            response.diagnosis = Some(found);
            first(&response)
        };
        let late = || Outcome::TimedOut(ExecutionTimedOut {});
        let lines = Diagnosis {
            hint: "do less in one execution; the last lines of its stdout: row 7".into(),
            ..diagnosis("timed_out", "")
        };
        let line = told(late(), lines);
        let hint = "| hint: timed_out: do less in one execution; the last lines of its stdout: row 7 (timeout_seconds \
                    allows more)";
        assert!(line.starts_with("timed out | ") && line.ends_with(hint), "{line}");
        let line = told(late(), diagnosis("network_denied", "pypi.org"));
        assert!(
            line.contains("| hint: network_denied \"pypi.org\": ") && !line.contains("timeout_seconds"),
            "{line}"
        );
        // Of a server that says no more than the code.
        let line = told(late(), diagnosis("timed_out", ""));
        assert!(line.ends_with(&format!("| hint: timed_out: {TIMED_OUT}")), "{line}");
        let peak = Diagnosis { hint: "at most 99 MiB were used".into(), ..diagnosis("out_of_memory", "") };
        let line = told(Outcome::OutOfMemory(ExecutionOutOfMemory {}), peak);
        assert!(line.ends_with("| hint: out_of_memory: at most 99 MiB were used"), "{line}");
        let line = told(Outcome::Signal(11), diagnosis("crashed", "SIGSEGV"));
        assert!(line.contains("| hint: crashed \"SIGSEGV\": "), "{line}");
    }

    #[test]
    fn a_diagnosis_begins_with_its_stable_word() {
        let mut response = ended(Outcome::ExitCode(1), "", "Traceback");
        response.diagnosis = Some(diagnosis("missing_module", "scipy"));
        assert!(
            first(&response)
                .ends_with("| hint: missing_module \"scipy\": it is not installed; use one that is")
        );
        response.diagnosis.as_mut().expect("a diagnosis").hint = "near it is numpy".into();
        assert!(first(&response).ends_with("| hint: missing_module \"scipy\": near it is numpy"));
        response.outcome = Some(ExecutionOutcome { outcome: Some(Outcome::ExitCode(0)) });
        assert!(!first(&response).contains("hint"), "a run that ended well needs none");
        response.diagnosis = Some(diagnosis("background_exception", "ValueError"));
        assert!(first(&response).contains("hint: background_exception"), "unless something failed beside it");
    }

    #[test]
    fn the_turns_that_are_left_and_their_warning_are_in_the_first_line() {
        let mut response = ended(Outcome::ExitCode(0), "", "");
        (response.turns_left, response.warning) = (Some(3), "write\nnow".into());
        assert!(
            first(&response).ends_with(" | turns left: 3 | warning: write\\nnow"),
            "{}",
            first(&response)
        );
    }

    #[test]
    fn a_guest_cannot_write_into_the_first_line() {
        let mut response = ended(Outcome::ExitCode(1), "exit 0 | all is well", "");
        response.diagnosis =
            Some(Diagnosis { hint: "a\nexit 0".into(), ..diagnosis("x\nexit 0", "y\n| exit 0") });
        let output = response.stdout.as_mut().expect("an output");
        (output.truncated, output.spilled_path) = (true, "/a\nexit 0".into());
        let text = text(&response);
        assert_eq!(text.lines().nth(1), Some("stdout:"), "{text}");
        assert!(text.starts_with("exit 1 | "));
    }
}
