//! `rekindle token`: makes, lists and removes the tokens in a tokens file. The service notices by itself.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use rekindle::config::amount;
use rekindle::config::tokens::{self, NewToken, Quota, Scope, Token, TokenId, Tokens, TokensError};
use rekindle::host::cgroup::CpuQuota;
use serde_json::json;

use super::args::{any_size, cpus};
use super::config::ConfigOptions;

/// Which tokens file.
#[derive(Debug, Args)]
pub struct FileOptions {
    /// The tokens file; the one of the configuration (auth.tokens) when left out
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigOptions,
}

/// The commands about tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print its secret, which cannot be shown again
    Create(Box<CreateOptions>),
    /// List the tokens
    Ls {
        #[command(flatten)]
        file: FileOptions,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a token; calls with it are denied from then on
    Rm {
        /// Its id
        id: TokenId,
        #[command(flatten)]
        file: FileOptions,
    },
}

/// Options of `token create`.
#[derive(Debug, Args)]
pub struct CreateOptions {
    /// Whose sandboxes it sees
    #[arg(long)]
    tenant: String,
    /// What it allows: create, exec, files, admin
    #[arg(long = "scope", value_name = "SCOPE,…", value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// A network policy its sandboxes may have, by its name, or * for all; repeatable, none when left out
    #[arg(long = "network", value_name = "NAME,…", value_delimiter = ',')]
    networks: Vec<String>,
    /// A service of the gateway its sandboxes may use, by its name, or * for all; repeatable, none when left out
    #[arg(long = "gateway", value_name = "NAME,…", value_delimiter = ',')]
    gateway: Vec<String>,
    /// Refuse root in its sandboxes, also where their template allows it
    #[arg(long)]
    no_root: bool,
    /// How long it works, such as 12h, 30d or 2030-01-31T00:00:00Z; never when left out
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    expires: Option<Timestamp>,
    /// Its id; the tenant and a random word when left out
    #[arg(long)]
    id: Option<TokenId>,
    /// Most sandboxes at a time
    #[arg(long, value_name = "N")]
    max_sandboxes: Option<u32>,
    /// Most processors at a time, such as 0.5 or 16
    #[arg(long, value_name = "N", value_parser = cpus)]
    max_cpus: Option<CpuQuota>,
    /// Most memory at a time, such as 512M or 64G
    #[arg(long, value_name = "SIZE", value_parser = any_size)]
    max_memory: Option<u64>,
    /// Most scratch disk at a time, such as 20G
    #[arg(long, value_name = "SIZE", value_parser = any_size)]
    max_disk: Option<u64>,
    /// Most that all sandboxes of the tenant may spend at the gateway on one day of UTC, in the units of its `cost`
    #[arg(long, value_name = "N")]
    max_gateway_cost_per_day: Option<u64>,
    /// Most requests of all sandboxes of the tenant to the gateway in a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_gateway_requests_per_minute: Option<u32>,
    /// Print the secret in the form that every version of E2B's clients takes for a key
    #[arg(long)]
    e2b: bool,
    #[command(flatten)]
    file: FileOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl FileOptions {
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        // A configuration that waits for its tokens file does not pass its own check.
        let loaded = self
            .config
            .load()
            .context("the configuration does not say which tokens file\nhint: use --file")?;
        loaded
            .config
            .auth
            .tokens
            .context("no tokens file is configured\nhint: use --file, and set auth.tokens to it")
    }
}

/// Runs the command.
pub fn token(command: TokenCommand) -> anyhow::Result<u8> {
    match command {
        TokenCommand::Create(options) => create(*options)?,
        TokenCommand::Ls { file, json } => list(&file.path()?, json)?,
        TokenCommand::Rm { id, file } => {
            tokens::remove(&file.path()?, &id)?;
            eprintln!("{id} is removed.");
        }
    }
    Ok(0)
}

fn create(options: CreateOptions) -> anyhow::Result<()> {
    let path = options.file.path()?;
    let id = match options.id {
        Some(id) => id,
        None => generated(&options.tenant)?,
    };
    let new = NewToken {
        id,
        tenant: options.tenant,
        scopes: options.scopes,
        quota: Quota {
            max_sandboxes: options.max_sandboxes,
            max_milli_cpus: options.max_cpus.map(|cpus| cpus.millis.into()),
            max_memory_mib: options.max_memory.map(mib),
            max_disk_mib: options.max_disk.map(mib),
            max_gateway_cost_per_day: options.max_gateway_cost_per_day,
            max_gateway_requests_per_minute: options.max_gateway_requests_per_minute,
        },
        networks: options.networks,
        gateway: options.gateway,
        root: !options.no_root,
        expires: options.expires,
    };
    let created = tokens::create(&path, &new)?;
    if options.json {
        let (secret, e2b_key) = (created.secret.reveal(), created.secret.e2b_key());
        println!("{}", json!({ "id": created.id.as_str(), "secret": secret, "e2b_key": e2b_key }));
    } else {
        match options.e2b {
            true => println!("{}", created.secret.e2b_key()),
            false => println!("{}", created.secret.reveal()),
        }
        eprintln!("{} is in {}. The secret is not kept: store it now.", created.id, path.display());
    }
    Ok(())
}

/// Whole mebibytes, which is what a quota counts; a part of one allows nothing.
fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// The tenant and eight random hexadecimal digits.
fn generated(tenant: &str) -> anyhow::Result<TokenId> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|source| TokensError::Random { source })?;
    let word: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let tenant: String = tenant.chars().take(48).collect();
    format!("{tenant}-{word}").parse().map_err(|message: String| anyhow::anyhow!("{message}\nhint: use --id"))
}

fn list(path: &Path, as_json: bool) -> anyhow::Result<()> {
    let tokens = Tokens::load(path)?;
    let now = Timestamp::now();
    if as_json {
        let all: Vec<serde_json::Value> = tokens.iter().map(|token| row_json(token, now)).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!("{:<24} {:<16} {:<24} {:<10} EXPIRES", "ID", "TENANT", "SCOPES", "SANDBOXES");
    for token in tokens.iter() {
        let most = token.quota.max_sandboxes.map_or("-".to_owned(), |most| most.to_string());
        println!(
            "{:<24} {:<16} {:<24} {most:<10} {}",
            token.id,
            token.tenant,
            scopes(token),
            expires(token, now)
        );
    }
    Ok(())
}

fn scopes(token: &Token) -> String {
    token.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
}

fn expires(token: &Token, now: Timestamp) -> String {
    match token.expires {
        None => "never".to_owned(),
        Some(time) if token.is_expired(now) => format!("{time} (expired)"),
        Some(time) => time.to_string(),
    }
}

fn row_json(token: &Token, now: Timestamp) -> serde_json::Value {
    json!({
        "id": token.id.as_str(),
        "tenant": token.tenant,
        "scopes": token.scopes,
        "quota": token.quota,
        "networks": token.networks,
        "gateway": token.gateway,
        "root": token.root,
        "expires": token.expires.map(|time| time.to_string()),
        "expired": token.is_expired(now),
    })
}

/// A time from now, as everywhere on the command line, or a point in time.
fn expiry(text: &str) -> Result<Timestamp, String> {
    expiry_from(text, Timestamp::now())
}

fn expiry_from(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong =
        || "a time such as 90s, 12h, 30d or 2030-01-31T00:00:00Z is needed, and not in the past".to_owned();
    let time = match amount::seconds(text) {
        Some(seconds) => SignedDuration::try_from_secs_f64(seconds)
            .and_then(|span| now.checked_add(span))
            .map_err(|_| wrong())?,
        None => text.parse().map_err(|_| wrong())?,
    };
    // Whole seconds are enough for a person to read.
    let time = Timestamp::from_second(time.as_second()).map_err(|_| wrong())?;
    if time > now { Ok(time) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    //! Times a person may write.

    use super::*;

    #[test]
    fn an_expiry_is_a_time_from_now_or_a_point_in_time() {
        let now: Timestamp = "2026-01-01T00:00:00.5Z".parse().expect("a time");
        let right = |text: &str| expiry_from(text, now).expect(text).to_string();
        assert_eq!(right("90m"), "2026-01-01T01:30:00Z");
        assert_eq!(right("90s"), "2026-01-01T00:01:30Z");
        assert_eq!(right("3600"), "2026-01-01T01:00:00Z");
        assert_eq!(right("800d"), "2028-03-11T00:00:00Z");
        assert_eq!(right("30d"), "2026-01-31T00:00:00Z");
        assert_eq!(right("2030-01-31T00:00:00Z"), "2030-01-31T00:00:00Z");
        for wrong in
            ["", "d", "0d", "-1d", "1y", "99999999999d", "4294967295d", "2020-01-01T00:00:00Z", "soon", "3é"]
        {
            assert!(expiry_from(wrong, now).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_made_of_the_tenant() {
        assert!(generated("acme").expect("an id").as_str().starts_with("acme-"));
        assert!(generated(&"a".repeat(63)).is_ok());
        assert!(generated("not a tenant").is_err());
    }
}
