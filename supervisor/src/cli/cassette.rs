//! `rekindle cassette`: lists, shows and removes what policies that record have left in the data directory.

use anyhow::Context as _;
use clap::Subcommand;
use rekindle::config::Dirs;
use rekindle::network::cassette::{CassetteSummary, Entry};
use rekindle::network::{CassetteName, Cassettes};
use serde_json::json;

use super::remote::{escape, quantity};

/// Characters of a path that are shown in a table.
const SHOWN: usize = 96;

/// The commands about cassettes.
#[derive(Debug, Subcommand)]
pub enum CassetteCommand {
    /// List the cassettes of this host
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the exchanges of a cassette, in their order
    Show {
        /// The cassette
        name: CassetteName,
        /// Print JSON, headers and digests included
        #[arg(long)]
        json: bool,
    },
    /// Remove a cassette; sandboxes that replay it are denied from then on
    Rm {
        /// The cassette
        name: CassetteName,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of the commands.
pub fn cassette(command: &CassetteCommand) -> anyhow::Result<u8> {
    let cassettes = Cassettes::new(&Dirs::find()?.data);
    match command {
        CassetteCommand::Ls { json } => ls(&cassettes.list()?, *json)?,
        CassetteCommand::Show { name, json } => show(&cassettes.entries(name)?, *json)?,
        CassetteCommand::Rm { name, json } => {
            cassettes.remove(name).with_context(|| format!("cassette {name} was not removed"))?;
            if *json {
                println!("{}", json!({ "removed": name }));
            } else {
                println!("removed {name}");
            }
        }
    }
    Ok(0)
}

fn ls(cassettes: &[CassetteSummary], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let one = |cassette: &CassetteSummary| {
            json!({
                "name": cassette.name,
                "exchanges": cassette.entries,
                "bytes": cassette.bytes,
                "last": cassette.last,
                "damaged_lines": cassette.damaged,
            })
        };
        let all: Vec<_> = cassettes.iter().map(one).collect();
        println!("{}", serde_json::to_string_pretty(&json!({ "cassettes": all }))?);
        return Ok(());
    }
    println!("{:<24} {:>9} {:>10}  LAST", "CASSETTE", "EXCHANGES", "SIZE");
    for cassette in cassettes {
        let last = cassette.last.as_deref().unwrap_or("-");
        let (name, size) = (cassette.name.as_str(), quantity::size(cassette.bytes));
        println!("{name:<24} {:>9} {size:>10}  {last}", cassette.entries);
        if cassette.damaged > 0 {
            eprintln!("rekindle: {} lines of {} cannot be read and are passed over", cassette.damaged, name);
        }
    }
    Ok(())
}

fn show(entries: &[(Entry, bool)], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let one = |(entry, there): &(Entry, bool)| -> anyhow::Result<serde_json::Value> {
            let mut value = serde_json::to_value(entry)?;
            value["body_is_there"] = (*there).into();
            Ok(value)
        };
        let all = entries.iter().map(one).collect::<anyhow::Result<Vec<_>>>()?;
        println!("{}", serde_json::to_string_pretty(&json!({ "exchanges": all }))?);
        return Ok(());
    }
    println!("{:<6} {:<7} {:>10}  REQUEST", "STATUS", "METHOD", "BODY");
    for (entry, there) in entries {
        let key = &entry.key;
        let size = if *there { quantity::size(entry.bytes) } else { "missing".to_owned() };
        let target = escape::text(&key.target.chars().take(SHOWN).collect::<String>());
        let method = escape::text(&key.method);
        let address = escape::text(&format!("{}://{}:{}", key.scheme, key.host, key.port));
        println!("{:<6} {method:<7} {size:>10}  {address}{target}", entry.status);
    }
    Ok(())
}
