//! Words that are taken and words that are not.

use std::time::Duration;

use clap::Parser;

use super::super::{Arguments, Command, LanguageName};
use super::*;

fn parse(words: &[&str]) -> Result<RemoteCommand, String> {
    let words = ["rekindle"].iter().chain(words);
    match Arguments::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::Remote(command) => Ok(*command),
        other => panic!("{other:?}"),
    }
}

fn exec(words: &[&str]) -> Result<ExecOptions, String> {
    let words: Vec<&str> = ["exec"].iter().chain(words).copied().collect();
    match parse(&words)? {
        RemoteCommand::Exec(on) => Ok(on.options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_words_fit_together() {
    use clap::CommandFactory as _;
    Arguments::command().debug_assert();
}

#[test]
fn a_program_follows_its_sandbox() {
    let options = exec(&["-it", "ab12", "--", "bash", "-l"]).expect("right");
    assert!(options.interactive && options.tty);
    assert_eq!(
        (options.sandbox.as_str(), options.program.argv),
        ("ab12", vec!["bash".to_owned(), "-l".into()])
    );
    let options = exec(&["ab12", "--sh", "ls | wc", "--timeout", "2m", "--env", "A=b=c"]).expect("right");
    assert_eq!(options.program.timeout, Some(Duration::from_secs(120)));
    assert_eq!(options.program.env, [("A".to_owned(), "b=c".to_owned())]);
}

#[test]
fn exactly_one_program_is_needed_for_an_execution() {
    assert!(exec(&["ab12"]).is_err());
    assert!(exec(&["--python", "1"]).is_err(), "without a sandbox");
    assert!(exec(&["ab12", "--python", "1", "--", "ls"]).is_err());
    assert!(exec(&["ab12", "ls"]).is_err(), "a program's words come after --");
}

#[test]
fn what_cannot_go_together_is_refused() {
    for wrong in [
        ["-t", "--json"],
        ["--stream", "--json"],
        ["-t", "--key=a"],
        ["--stream", "--key=a"],
        ["-d", "--key=a"],
        ["-d", "--stream"],
    ] {
        assert!(exec(&[wrong[0], wrong[1], "ab12", "--", "ls"]).is_err(), "{wrong:?}");
    }
    for wrong in [
        &["rm"][..],
        &["rm", "--all", "a"],
        &["timeout", "a"],
        &["put", "a", "b"],
        &["ps", "--quiet", "--json"],
        &["ps", "--meta", "x"],
        &["status", "--client-cert", "a.pem"],
        &["attach", "a"],
        &["attach", "-i", "--json", "a", "ex-1"],
        &["kill", "a"],
        &["mkdir", "a"],
        &["mkdir", "a", "d", "--mode", "9"],
        &["mkdir", "a", "d", "--mode", "10000"],
        &["mv", "a", "b"],
        &["watch", "-r"],
        &["watch", "a", "d", "--existing"],
        &["kill", "-s", "NOTHING", "a", "ex-1"],
        &["kill", "-s", "65", "a", "ex-1"],
        &["kill", "-s", "0", "a", "ex-1"],
    ] {
        assert!(parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn every_command_takes_a_server() {
    let RemoteCommand::Ps(on) = parse(&["ps", "--server", "unix:/a", "--token", "x"]).expect("right") else {
        panic!("another command");
    };
    assert_eq!(on.server.server.as_deref(), Some("unix:/a"));
    assert_eq!(on.server.token.as_deref(), Some("x"));
}

#[test]
fn a_signal_has_a_name_or_a_number() {
    let sent = |words: &[&str]| match parse(words).expect("right") {
        RemoteCommand::Kill(on) => (on.options.signal, on.options.executions),
        other => panic!("{other:?}"),
    };
    assert_eq!(sent(&["kill", "a", "ex-1", "ex-2"]), (15, vec!["ex-1".to_owned(), "ex-2".into()]));
    for nine in ["KILL", "SIGKILL", "kill", "9"] {
        assert_eq!(sent(&["kill", "-s", nine, "a", "ex-1"]).0, 9, "{nine}");
    }
}

#[test]
fn code_comes_from_one_place_and_runs_in_one() {
    let code = |words: &[&str]| match parse(&[&["code"], words].concat())? {
        RemoteCommand::Code(on) => Ok(on.options),
        other => panic!("{other:?}"),
    };
    let options = code(&["ab12", "-c", "1", "--language", "ts"]).expect("right");
    assert_eq!((options.code.as_deref(), options.file), (Some("1"), None));
    assert_eq!(options.language, Some(LanguageName::Typescript));
    for wrong in [
        &["ab12", "x.py", "-c", "1"][..],
        &["ab12", "--context", "c", "--language", "bash"],
        &["ab12", "--language", "cobol"],
        &["ab12", "--timeout", "0"],
        &[],
    ] {
        let refused: Result<_, String> = code(wrong);
        assert!(refused.is_err(), "{wrong:?}");
    }
    assert!(parse(&["context", "rm", "ab12"]).is_err(), "which one?");
    assert!(parse(&["timeout", "ab12"]).is_err(), "nothing to set");
    assert!(parse(&["timeout", "ab12", "--on-timeout", "pause"]).is_ok());
}
