//! `rekindle completions`: a script that completes the words of this command line in a shell.

use clap::{Command, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use super::args::Arguments;

/// Shells there is a script for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ShellName {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Prints the script.
pub fn completions(shell: ShellName) -> anyhow::Result<u8> {
    super::config::show(&script(shell)?)?;
    Ok(0)
}

fn script(shell: ShellName) -> anyhow::Result<String> {
    let shell = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(), "rekindle", &mut text);
    Ok(String::from_utf8(text)?)
}

/// The command line without its hidden commands, which the generator would offer.
fn shown() -> Command {
    let all = Arguments::command();
    Command::new("rekindle")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|one| !one.is_hide_set()).cloned())
}

#[cfg(test)]
mod tests {
    //! The scripts know the commands that help shows.

    use super::*;

    #[test]
    fn every_shell_completes_every_command_and_no_hidden_one() {
        for shell in ShellName::value_variants() {
            let script = script(*shell).expect("text");
            let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            let words: Vec<&str> = script.split(|letter| !word(letter)).collect();
            for command in Arguments::command().get_subcommands() {
                let offered = words.contains(&command.get_name());
                assert_eq!(offered, !command.is_hide_set(), "{shell:?}: {}", command.get_name());
            }
            for option in ["verbose", "version", "help"] {
                assert!(
                    words.contains(&option) || script.contains(&format!("--{option}")),
                    "{shell:?}: {option}"
                );
            }
        }
    }
}
