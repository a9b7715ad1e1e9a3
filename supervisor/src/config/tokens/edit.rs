//! Adds and removes tokens in the file, keeping its comments. Called by `rekindle token`, never by the service.
//!
//! The file is exchanged in one step, so the service reads the old one or the new one; two edits at a time
//! wait for each other.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use super::secret::to_hex;
use super::token::check_tenant;
use super::{Quota, Scope, Secret, TokenId, Tokens, TokensError};

/// What a token is to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its id.
    pub id: TokenId,
    /// Whose sandboxes it sees.
    pub tenant: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// How much its holder may use.
    pub quota: Quota,
    /// The network policies its holder may choose; `*` stands for all.
    pub networks: Vec<String>,
    /// The services of the gateway its holder may use; `*` stands for all.
    pub gateway: Vec<String>,
    /// Whether its holder may be root in its sandboxes.
    pub root: bool,
    /// When it stops working.
    pub expires: Option<Timestamp>,
}

/// A token that is in the file now.
#[derive(Debug)]
pub struct Created {
    /// Its id.
    pub id: TokenId,
    /// Its secret, which nobody can show again.
    pub secret: Secret,
}

/// Adds a token to the file, which is made if need be.
///
/// # Errors
/// When the file is no tokens file, has the id already, or cannot be written.
pub fn create(path: &Path, new: &NewToken) -> Result<Created, TokensError> {
    let invalid = |message| TokensError::Invalid { path: path.to_owned(), message };
    check_tenant(&new.tenant).map_err(invalid)?;
    let secret = Secret::generate(&new.id)?;
    edit(path, |document, tokens| {
        if tokens.get(&new.id).is_some() {
            return Err(TokensError::Taken { id: new.id.to_string(), path: path.to_owned() });
        }
        let entries = document
            .entry("token")
            .or_insert(Item::ArrayOfTables(ArrayOfTables::new()))
            .as_array_of_tables_mut()
            .ok_or_else(|| invalid("token is not a list of tables".to_owned()))?;
        entries.push(entry(new, &secret).map_err(invalid)?);
        Ok(())
    })?;
    Ok(Created { id: new.id.clone(), secret })
}

/// Removes a token from the file.
///
/// # Errors
/// When it is not there, or the file cannot be read or written.
pub fn remove(path: &Path, id: &TokenId) -> Result<(), TokensError> {
    edit(path, |document, _| {
        let unknown = || TokensError::Unknown { id: id.to_string(), path: path.to_owned() };
        let entries = document.get_mut("token").and_then(Item::as_array_of_tables_mut).ok_or_else(unknown)?;
        let before = entries.len();
        entries.retain(|entry| entry.get("id").and_then(Item::as_str) != Some(id.as_str()));
        if entries.len() == before { Err(unknown()) } else { Ok(()) }
    })
}

fn entry(new: &NewToken, secret: &Secret) -> Result<Table, String> {
    let mut table = Table::new();
    table["id"] = value(new.id.as_str());
    table["sha256"] = value(to_hex(&secret.sha256()));
    table["tenant"] = value(&new.tenant);
    table["scopes"] = value(new.scopes.iter().map(|scope| scope.as_str()).collect::<toml_edit::Array>());
    let number = |number: u64| i64::try_from(number).map_err(|_| format!("{number} is too large"));
    if let Some(most) = new.quota.max_sandboxes {
        table["max_sandboxes"] = value(i64::from(most));
    }
    if let Some(most) = new.quota.max_milli_cpus {
        table["max_milli_cpus"] = value(number(most)?);
    }
    if let Some(most) = new.quota.max_memory_mib {
        table["max_memory_mib"] = value(number(most)?);
    }
    if let Some(most) = new.quota.max_disk_mib {
        table["max_disk_mib"] = value(number(most)?);
    }
    if let Some(most) = new.quota.max_gateway_cost_per_day {
        table["max_gateway_cost_per_day"] = value(number(most)?);
    }
    if let Some(most) = new.quota.max_gateway_requests_per_minute {
        table["max_gateway_requests_per_minute"] = value(i64::from(most));
    }
    if !new.networks.is_empty() {
        table["networks"] = value(new.networks.iter().map(String::as_str).collect::<toml_edit::Array>());
    }
    if !new.gateway.is_empty() {
        table["gateway"] = value(new.gateway.iter().map(String::as_str).collect::<toml_edit::Array>());
    }
    if !new.root {
        table["root"] = value(false);
    }
    if let Some(expires) = new.expires {
        table["expires"] = value(expires.to_string());
    }
    Ok(table)
}

fn edit(
    path: &Path,
    change: impl FnOnce(&mut DocumentMut, &Tokens) -> Result<(), TokensError>,
) -> Result<(), TokensError> {
    // A link stays one: what it points to is exchanged.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = match target.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let io = |operation: &'static str| {
        let path = path.to_owned();
        move |source: io::Error| TokensError::Io { operation, path, source }
    };
    // The directory is the lock: it stays the same file while the tokens file is exchanged.
    let dir_file = File::open(&dir).map_err(io("open the directory of"))?;
    let lock = Flock::lock(dir_file, FlockArg::LockExclusive)
        .map_err(|(_, error)| io("lock the directory of")(error.into()))?;
    let invalid = |message| TokensError::Invalid { path: path.to_owned(), message };
    let (text, tokens) = match fs::read_to_string(&target) {
        Ok(text) => (text, Tokens::load(&target)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), Tokens::default()),
        Err(source) => return Err(io("read")(source)),
    };
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| invalid(error.to_string()))?;
    change(&mut document, &tokens)?;
    let text = document.to_string();
    // Nothing is written that the service would refuse.
    Tokens::parse(&text).map_err(invalid)?;
    exchange(&target, &dir, &text).map_err(io("write"))?;
    lock.sync_all().map_err(io("write"))
}

/// Writes beside and renames. Owner and mode stay: root may edit the file of the service's user.
fn exchange(target: &Path, dir: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".tokens-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    if let Ok(old) = fs::metadata(target) {
        let own = file.as_file().metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
        }
        file.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o660))?;
    }
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}
