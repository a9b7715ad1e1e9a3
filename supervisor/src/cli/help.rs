//! The list of commands, grouped by who uses them, with the everyday ones first.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::args::Arguments;

/// The groups, each with its commands in order.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run something here", &["run", "doctor", "setup"]),
    (
        "Use a server",
        &[
            "create", "exec", "attach", "jobs", "kill", "code", "context", "put", "get", "ls", "mkdir", "mv",
            "describe", "ps", "rm", "inspect", "timeline", "egress", "network", "port", "watch", "pause",
            "resume", "timeout", "mcp", "prompt",
        ],
    ),
    ("Operate a host", &["serve", "status", "top", "usage", "template", "token", "cassette", "config"]),
    ("Other", &["completions", "help"]),
];

/// The command line of this process.
pub fn parse() -> Result<Arguments, clap::Error> {
    let mut command = grouped();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The command line with its commands grouped.
pub fn grouped() -> Command {
    let mut command = Arguments::command();
    command.build();
    let width = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or(0);
    let mut list = String::new();
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(list, "  {name:<width$}  {}", about.unwrap_or_default());
        }
        list.push('\n');
    }
    Arguments::command()
        .help_template(format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}"))
}

#[cfg(test)]
mod tests {
    //! Nothing is left out.

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Arguments::command();
        command.build();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
    }

    #[test]
    fn everyday_commands_come_first() {
        let help = grouped().render_help().to_string();
        let at = |word: &str| help.find(word).unwrap_or_else(|| panic!("no {word} in {help}"));
        assert!(at("  run ") < at("  create ") && at("  create ") < at("  serve "), "{help}");
    }
}
