//! `rekindle man`: writes the manual pages of this command line, one for each command. Hidden: packages call it.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory as _;

use super::args::Arguments;

/// Writes all pages into a directory.
pub fn man(dir: &Path) -> anyhow::Result<u8> {
    clap_mangen::generate_to(Arguments::command(), dir)
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    //! Every command has a page that knows its options.

    use std::fs;

    use super::*;

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let dir = tempfile::tempdir().expect("a directory");
        man(dir.path()).expect("written");
        let page = |name: &str| fs::read_to_string(dir.path().join(name));
        let run = page("rekindle-run.1").expect("a page");
        assert!(run.contains("rekindle run") && run.contains("\\-\\-python"), "{run}");
        let nested = page("rekindle-template-build.1").expect("a page");
        assert!(nested.contains("rekindle template build"), "{nested}");
        for command in Arguments::command().get_subcommands() {
            let written = page(&format!("rekindle-{}.1", command.get_name()));
            assert_eq!(written.is_ok(), !command.is_hide_set(), "{}", command.get_name());
        }
        assert!(page("rekindle.1").expect("a page").contains(env!("CARGO_PKG_VERSION")));
    }
}
