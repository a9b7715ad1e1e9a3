//! Every end that can be told has its code and says what to do.

use super::*;
use crate::agent::{GuessLanguage, Usage};

const DOCS: &str = include_str!("../../../../docs/guides/diagnoses.md");

fn output(text: &str) -> Output {
    Output {
        text: text.to_owned(),
        truncated: false,
        total_bytes: text.len() as u64,
        total_chars: text.chars().count() as u64,
        spilled_path: None,
        spilled_bytes: 0,
    }
}

fn finished(outcome: Outcome, guess: Option<(DiagnosisKind, &str, &str)>) -> Finished {
    Finished {
        outcome,
        stdout: output(""),
        stderr: output(""),
        usage: Usage { peak_memory_bytes: Some(65 << 20), ..Usage::default() },
        diagnosis: guess.map(|(kind, subject, message)| Guess {
            kind,
            subject: subject.to_owned(),
            message: message.to_owned(),
            language: Some(GuessLanguage::Python),
        }),
        interpreter: None,
    }
}

fn told(finished: &Finished) -> Option<Diagnosis> {
    diagnose(finished, &NetworkSummary::default(), &[])
}

fn code(finished: &Finished) -> Option<(&'static str, String)> {
    told(finished).map(|told| (told.category.word(), told.subject))
}

#[test]
fn every_code_is_documented_and_no_other() {
    let row = |line: &str| line.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    let documented: Vec<String> = DOCS.lines().filter_map(row).collect();
    let known: Vec<&str> = Category::ALL.into_iter().map(Category::word).collect();
    assert_eq!(documented, known);
}

#[test]
fn ends_that_need_no_words_have_a_code() {
    let memory = told(&finished(Outcome::OutOfMemory, None)).expect("a diagnosis");
    assert_eq!(memory.category, Category::OutOfMemory);
    assert!(memory.hint.ends_with("at most 65 MiB were used"), "{}", memory.hint);
    for (signal, word, name) in [
        (11, "crashed", "SIGSEGV"),
        (6, "crashed", "SIGABRT"),
        (9, "killed", "SIGKILL"),
        (40, "killed", "signal 40"),
    ] {
        assert_eq!(code(&finished(Outcome::Signaled(signal), None)), Some((word, name.to_owned())));
    }
    let segfault = told(&finished(Outcome::Signaled(11), None)).expect("a diagnosis");
    assert!(segfault.hint.starts_with("a segmentation fault: "), "{}", segfault.hint);
    assert_eq!(told(&finished(Outcome::Cancelled, None)), None);
    assert_eq!(told(&finished(Outcome::Exited(3), None)), None);
}

#[test]
fn a_time_out_tells_the_last_lines() {
    let mut ended = finished(Outcome::TimedOut, None);
    assert!(told(&ended).expect("a diagnosis").hint.ends_with("it had printed nothing"));
    ended.stdout = output("one\ntwo\nthree\n\nfo\u{1b}[2Jur\n");
    ended.stderr = output(&"e".repeat(9_999));
    let hint = told(&ended).expect("a diagnosis").hint;
    assert!(
        hint.contains("its stdout: two / three / fo\\u{1b}[2Jur; the last lines of its stderr: ee"),
        "{hint}"
    );
    assert!(hint.len() < 1_000 && !hint.contains('\n'), "{hint}");
}

#[test]
fn a_missing_module_comes_with_what_is_there() {
    let ended = finished(Outcome::Exited(1), Some((DiagnosisKind::MissingModule, "nunpy", "")));
    let packages: Vec<String> = ["pip:numpy 2.4.6", "git 1:2", "pip:pandas 3.0"].map(str::to_owned).into();
    let found = diagnose(&ended, &NetworkSummary::default(), &packages).expect("a diagnosis");
    assert_eq!((found.category, &found.near[..]), (Category::MissingModule, &["numpy".to_owned()][..]));
    assert_eq!(
        found.hint,
        "it is not installed; near it are numpy; besides the standard library there are numpy, pandas"
    );
    let many: Vec<String> = (0..500).map(|number| format!("pip:package-{number} 1")).collect();
    let hint = diagnose(&ended, &NetworkSummary::default(), &many).expect("a diagnosis").hint;
    assert!(hint.ends_with(" and 476 more") && hint.len() < 1_000, "{hint}");
    let pillow = finished(Outcome::Exited(1), Some((DiagnosisKind::MissingModule, "PIL.Image", "")));
    assert_eq!(told(&pillow).expect("a diagnosis").hint, "it is not installed (its package is pillow)");
}

#[test]
fn a_missing_module_of_node_comes_with_what_is_there_too() {
    let packages: Vec<String> =
        ["node v24.19.0", "npm:npm 11.6.2", "npm:typescript 5.9.3"].map(str::to_owned).into();
    let missing = |module: &str, packages: &[String]| {
        let mut ended = finished(Outcome::Exited(1), Some((DiagnosisKind::MissingModule, module, "")));
        ended.diagnosis.as_mut().expect("a guess").language = Some(GuessLanguage::Node);
        let found = diagnose(&ended, &NetworkSummary::default(), packages).expect("a diagnosis");
        (found.near, found.hint)
    };
    let (near, hint) = missing("typescritp", &packages);
    assert_eq!(near, ["typescript"]);
    assert_eq!(
        hint,
        "it is not installed; near it are typescript; besides Node's own modules there are, in \
         /usr/local/lib/node_modules, npm, typescript"
    );
    let (near, hint) = missing("typescript/lib/x", &packages);
    assert!(
        near == ["typescript"] && hint.ends_with("use /usr/local/lib/node_modules/typescript/lib/x"),
        "{hint}"
    );
    let (near, hint) = missing("./helper", &packages);
    assert!(near.is_empty() && hint.starts_with("there is no such file"), "{hint}");
    // An image that was made before they were listed.
    let (near, hint) = missing("fss", &["pip:numpy 2.4.6".to_owned()]);
    assert_eq!(near, ["fs"]);
    assert_eq!(hint, "it is not installed; near it are fs; use what Node itself has, or write it");
}

#[test]
fn a_guess_about_a_program_that_ended_well_is_believed_only_where_it_can_be_true() {
    let well = |kind| code(&finished(Outcome::Exited(0), Some((kind, "x", ""))));
    assert_eq!(well(DiagnosisKind::EmptyOutput), Some(("empty_output", "x".to_owned())));
    assert_eq!(well(DiagnosisKind::BackgroundException), Some(("background_exception", "x".to_owned())));
    assert_eq!(well(DiagnosisKind::MissingModule), None);
    assert_eq!(well(DiagnosisKind::OutOfMemory), None);
}

#[test]
fn what_an_exception_says_is_in_the_hint() {
    let ended =
        finished(Outcome::Exited(1), Some((DiagnosisKind::UncaughtException, "ValueError", "bad\nvalue")));
    let found = told(&ended).expect("a diagnosis");
    assert_eq!(found.hint, "bad\\nvalue; standard error says where");
    let heap = finished(Outcome::Signaled(6), Some((DiagnosisKind::OutOfMemory, "", "")));
    assert_eq!(code(&heap), Some(("out_of_memory", String::new())), "the signal is but its end");
}
