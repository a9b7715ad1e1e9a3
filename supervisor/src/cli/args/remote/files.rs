//! Words of the commands that bring files in and out, list, make and move them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{UserOptions, variable};

/// Options of `put`.
#[derive(Debug, Args)]
pub struct PutOptions {
    /// The sandbox
    pub sandbox: String,
    /// The file to copy; - for standard input
    pub local: PathBuf,
    /// Where to, absolute or relative to the user's home
    pub guest: OsString,
    /// Refuse when there is something already
    #[arg(long)]
    pub no_clobber: bool,
    /// Write into the file that is there, through links, so that it keeps its owner and permissions; broken off, it
    /// leaves what had arrived
    #[arg(long, conflicts_with = "no_clobber")]
    pub in_place: bool,
    /// Note a word at the file; repeatable. What was noted before is gone
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub meta: Vec<(String, String)>,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print the written file as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `get`.
#[derive(Debug, Args)]
pub struct GetOptions {
    /// The sandbox
    pub sandbox: String,
    /// The file or directory, absolute or relative to the user's home
    pub guest: OsString,
    /// Where to; - for standard output
    pub local: PathBuf,
    #[command(flatten)]
    pub user: UserOptions,
}

/// Options of `ls`.
#[derive(Debug, Args)]
pub struct LsOptions {
    /// The sandbox
    pub sandbox: String,
    /// The directory; the user's home when left out
    pub path: Option<OsString>,
    /// Also what is in the directories below, so many levels in all
    #[arg(long, value_name = "LEVELS", default_value_t = 1)]
    pub depth: u32,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `mkdir`.
#[derive(Debug, Args)]
pub struct MkdirOptions {
    /// The sandbox
    pub sandbox: String,
    /// The directory, absolute or relative to the user's home; those above it are made too
    pub path: OsString,
    /// Its permissions in octal digits; 755 when left out
    #[arg(long, value_name = "MODE", value_parser = permissions)]
    pub mode: Option<u32>,
    /// Refuse when there is something already
    #[arg(long)]
    pub no_clobber: bool,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print the directory as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `mv`.
#[derive(Debug, Args)]
pub struct MvOptions {
    /// The sandbox
    pub sandbox: String,
    /// The path it has, absolute or relative to the user's home
    pub from: OsString,
    /// The path it gets, whole: a directory that is there is replaced when it is empty, and never moved into
    pub to: OsString,
    /// Refuse when there is something already
    #[arg(long)]
    pub no_clobber: bool,
    #[command(flatten)]
    pub user: UserOptions,
    /// Print what was moved as JSON
    #[arg(long)]
    pub json: bool,
}

/// `755` or `0755`.
fn permissions(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| "permissions are needed in octal digits, such as 755".into())
}
