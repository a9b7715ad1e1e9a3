//! `rekindle completions`: a script that completes the words of this command line in a shell.

use clap::{CommandFactory as _, ValueEnum};
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
    clap_complete::generate(shell, &mut Arguments::command(), "rekindle", &mut text);
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests {
    //! The scripts know the commands.

    use super::*;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in ShellName::value_variants() {
            let script = script(*shell).expect("text");
            for command in Arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
        }
    }
}
