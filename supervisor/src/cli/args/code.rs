//! The words of the commands about code that is run piece by piece: `code` and `context`. Carried out in `cli/remote`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{On, OneOptions, span, variable};

/// Languages that contexts speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LanguageName {
    /// Python 3
    Python,
    /// JavaScript on Node
    #[value(alias = "js")]
    Javascript,
    /// TypeScript on a Node that strips types
    #[value(alias = "ts")]
    Typescript,
    /// Bash
    Bash,
}

/// Options of `code`.
#[derive(Debug, Args)]
pub struct CodeOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// A local file with the code; - for standard input, as when it is left out
    pub file: Option<PathBuf>,
    /// The code
    #[arg(short, long, value_name = "CODE", conflicts_with = "file")]
    pub code: Option<String>,
    /// The context to run it in; the one that the sandbox has for the language when left out
    #[arg(long, value_name = "ID")]
    pub context: Option<String>,
    /// The language; that of the file's name, or python, when left out
    #[arg(long, value_name = "LANGUAGE", value_enum, conflicts_with = "context")]
    pub language: Option<LanguageName>,
    /// A variable for as long as the code runs; repeatable
    #[arg(long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Interrupt the code after this time, in seconds or such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub timeout: Option<Duration>,
    /// Write images and documents that the code shows to files in this directory
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Print output, results and error as JSON when it has ended
    #[arg(long)]
    pub json: bool,
}

/// The commands about contexts.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List the contexts of a sandbox
    Ls(On<OneOptions>),
    /// Make a context and print its id
    Create(On<NewContextOptions>),
    /// Forget what was defined in a context
    Restart(On<ContextOptions>),
    /// Remove a context
    Rm(On<ContextOptions>),
}

/// Options of `context create`.
#[derive(Debug, Args)]
pub struct NewContextOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The language
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value = "python")]
    pub language: LanguageName,
    /// Where its code begins; the user's home when left out
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true)]
    pub cwd: String,
    /// Print the context as JSON
    #[arg(long)]
    pub json: bool,
}

/// One context.
#[derive(Debug, Args)]
pub struct ContextOptions {
    /// The sandbox: its id, or as much of it as no other begins with
    pub sandbox: String,
    /// The context, as `context ls` names it
    pub context: String,
}
