//! `cargo xtask ci`: exactly what CI runs, which is the whole test command.

use anyhow::Result;

use crate::test;

/// Runs every check and test.
pub fn run() -> Result<()> {
    test::run(&test::Args::default())
}
