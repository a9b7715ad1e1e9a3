//! `rekindle config`: what is in force and where it comes from, what is wrong, and the reference page.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use rekindle::config::Dirs;
use rekindle::config::server::{Flag, Loaded, Origin, Sources, reference};
use rekindle::store::Artifacts;

use super::setup;

/// Where the configuration of the service comes from. Every command that needs it takes these.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigOptions {
    /// The configuration file (also REKINDLE_CONFIG)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set one value over file and variables, such as sandbox.ttl_s=60; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

/// The commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show what is in force and where each value comes from, or everything that is wrong
    Check {
        #[command(flatten)]
        options: ConfigOptions,
    },
    /// Print the reference page
    Reference,
}

impl ConfigOptions {
    /// Puts the configuration together.
    pub fn load(&self) -> anyhow::Result<Loaded> {
        let flag = |(key, value): &(String, String)| Flag {
            name: format!("--set {key}"),
            key: key.clone(),
            value: value.clone(),
        };
        Ok(Sources::of_process(self.config.clone(), self.set.iter().map(flag).collect()).load()?)
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if key.contains('.') => Ok((key.into(), value.into())),
        _ => Err("SECTION.KEY=VALUE is needed, such as sandbox.ttl_s=60".into()),
    }
}

/// Runs the command.
pub fn config(command: &ConfigCommand) -> anyhow::Result<u8> {
    match command {
        ConfigCommand::Reference => show(&reference())?,
        ConfigCommand::Check { options } => {
            let loaded = options.load()?;
            loaded.check_files()?;
            show(&table(&loaded)?)?;
            match &loaded.file {
                Some(file) => eprintln!("{} is in order.", file.display()),
                None => eprintln!("There is no file; these are the defaults with variables and flags."),
            }
        }
    }
    Ok(0)
}

fn table(loaded: &Loaded) -> anyhow::Result<String> {
    let config = &loaded.config;
    let artifacts = Artifacts::of(&Dirs::find()?);
    let default = config.default_template(|name| setup::has_image(name, &artifacts));
    let mut rows = loaded.rows();
    for (key, value, _) in &mut rows {
        // What a default comes to here says more than that there is none.
        match key.as_str() {
            "listen.socket" => {
                let root = nix::unistd::geteuid().is_root();
                *value = config.listen.socket_path(&Dirs::find()?.data, root).display().to_string();
            }
            "listen.socket_mode" => *value = config.listen.mode().into(),
            "sandbox.default_template" => *value = serde_json::to_string(&default)?,
            "pool.templates" => *value = serde_json::to_string(&config.templates(&default))?,
            _ => {}
        }
    }
    let keys = rows.iter().map(|(key, ..)| key.len()).max().unwrap_or(0);
    // One long value does not push everything aside.
    let values = rows.iter().map(|(_, value, _)| value.len()).max().unwrap_or(0).min(40);
    let line =
        |(key, value, origin): &(String, String, Origin)| format!("{key:keys$}  {value:values$}  {origin}\n");
    Ok(rows.iter().map(line).collect())
}

/// Writes a result to standard output; a reader that has seen enough, such as `head`, is no failure.
pub fn show(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
