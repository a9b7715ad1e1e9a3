//! Puts the configuration together: default, then file, then variable, then flag; the later wins.
//!
//! The environment and the user are given, not read, so that tests need no process of their own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::Value;

use super::section::Given;
use super::{ConfigError, Problem, ServerConfig, variable};

/// Variables that look like one of a section and are something else: the tests' own.
const NOT_OURS: [&str; 2] = ["REKINDLE_ENGINE_FILE", crate::network::gateway::TOKEN_VARIABLE];

/// Where a value in force comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file.
    File(PathBuf),
    /// A variable, by its name.
    Variable(String),
    /// A flag, as the person typed it.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A value given on the command line.
#[derive(Debug, Clone)]
pub struct Flag {
    /// How the person wrote the flag, for messages.
    pub name: String,
    /// The key, such as `listen.tcp`.
    pub key: String,
    /// The value as text.
    pub value: String,
}

/// Everything the configuration is made of.
#[derive(Debug, Default)]
pub struct Sources {
    /// The file somebody named; it must be there.
    pub file: Option<PathBuf>,
    /// The file that is read when it is there.
    pub default_file: Option<PathBuf>,
    /// The variables of the process that begin with `REKINDLE_`.
    pub variables: Vec<(String, String)>,
    /// Flags.
    pub flags: Vec<Flag>,
}

/// A configuration that passed every check.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: ServerConfig,
    /// The file that was read.
    pub file: Option<PathBuf>,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Where the value of `section.key` comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// Every key with its value and its origin, in the order of the reference.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String, Origin)> {
        let row = |(section, key): (&str, &super::Key)| {
            let name = format!("{section}.{}", key.name);
            let origin = self.origin(&name);
            (name, self.config.shown(section, key.name), origin)
        };
        ServerConfig::keys().map(row).collect()
    }
}

impl Sources {
    /// The sources of this process. `file` and `flags` come from the command line; `REKINDLE_CONFIG` names
    /// the file when the command line does not.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, flags: Vec<Flag>) -> Self {
        // A name or value that is not text is none of ours.
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let ours = |(name, _): &(String, String)| name.starts_with("REKINDLE_");
        let root = nix::unistd::geteuid().is_root();
        Self {
            file: file.or_else(|| absolute("REKINDLE_CONFIG")),
            default_file: default_file(root, absolute("XDG_CONFIG_HOME"), absolute("HOME")),
            variables: std::env::vars_os().filter_map(text).filter(ours).collect(),
            flags,
        }
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    /// When the file cannot be read, or with everything that is wrong with the values.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        self.assemble(self.read()?)
    }

    /// The same with what was read from a file.
    pub(crate) fn assemble(&self, file: Option<(PathBuf, toml::Table)>) -> Result<Loaded, ConfigError> {
        let mut loading = Loading::default();
        if let Some((path, table)) = &file {
            loading.file(path, table);
        }
        loading.variables(&self.variables);
        loading.flags(&self.flags);
        let Loading { config, origins, mut problems } = loading;
        let follow = config.check(|key| origins.get(key).map(ToString::to_string).unwrap_or_default());
        // Nothing is complained about twice: a value that could not be read is still the default.
        let new: Vec<Problem> =
            follow.into_iter().filter(|new| problems.iter().all(|old| old.key != new.key)).collect();
        problems.extend(new);
        if !problems.is_empty() {
            return Err(ConfigError::Invalid { problems });
        }
        Ok(Loaded { config, file: file.map(|(path, _)| path), origins })
    }

    fn read(&self) -> Result<Option<(PathBuf, toml::Table)>, ConfigError> {
        let Some(path) = self.file.as_ref().or(self.default_file.as_ref()) else { return Ok(None) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.file.is_none() => return Ok(None),
            Err(source) => return Err(ConfigError::Read { path: path.clone(), source }),
        };
        let table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.clone(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        Ok(Some((path.clone(), table)))
    }
}

/// An empty or relative value means unset, as the XDG specification has it.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn default_file(root: bool, xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from("/etc/rekindle/rekindle.toml"));
    }
    let dir = xdg.or_else(|| home.map(|home| home.join(".config")))?;
    Some(dir.join("rekindle/rekindle.toml"))
}

#[derive(Default)]
struct Loading {
    config: ServerConfig,
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
}

impl Loading {
    fn file(&mut self, path: &Path, table: &toml::Table) {
        let origin = Origin::File(path.to_owned());
        for (section, value) in table {
            let Some((name, _, keys)) = ServerConfig::SECTIONS.iter().find(|(name, ..)| name == section)
            else {
                let known: Vec<&str> = ServerConfig::SECTIONS.iter().map(|(name, ..)| *name).collect();
                self.unknown(&origin, section, "section", &known);
                continue;
            };
            let Value::Table(values) = value else {
                let hint = format!("write [{section}] and its keys below");
                self.problem(&origin, section, "this is a section, not a value".to_owned(), hint);
                continue;
            };
            for (key, value) in values {
                if keys.iter().any(|known| known.name == key) {
                    self.set(origin.clone(), name, key, Given::Typed(value.clone()));
                } else {
                    let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
                    self.unknown(&origin, &format!("{section}.{key}"), "key", &known);
                }
            }
        }
    }

    fn variables(&mut self, variables: &[(String, String)]) {
        // An empty variable is an unset one, so that a unit file can blank it.
        for (name, text) in variables.iter().filter(|(_, text)| !text.is_empty()) {
            let origin = Origin::Variable(name.clone());
            if let Some((section, key)) =
                ServerConfig::keys().find(|(section, key)| variable(section, key.name) == *name)
            {
                self.set(origin, section, key.name, Given::Text(text.clone()));
            } else if let Some((section, _, keys)) = ServerConfig::SECTIONS.iter().find(|(section, ..)| {
                name.starts_with(&variable(section, "")) && !NOT_OURS.contains(&name.as_str())
            }) {
                let known: Vec<String> = keys.iter().map(|key| variable(section, key.name)).collect();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                self.unknown(&origin, name, "variable", &known);
            }
        }
    }

    fn flags(&mut self, flags: &[Flag]) {
        for flag in flags {
            let origin = Origin::Flag(flag.name.clone());
            let name = |(section, key): (&str, &super::Key)| format!("{section}.{}", key.name);
            match ServerConfig::keys().find(|entry| name(*entry) == flag.key) {
                Some((section, key)) => self.set(origin, section, key.name, Given::Text(flag.value.clone())),
                None => {
                    let known: Vec<String> = ServerConfig::keys().map(name).collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    self.unknown(&origin, &flag.key, "key", &known);
                }
            }
        }
    }

    fn set(&mut self, origin: Origin, section: &str, key: &str, given: Given) {
        let name = format!("{section}.{key}");
        match self.config.set(section, key, given) {
            Ok(()) => {
                self.origins.insert(name, origin);
            }
            Err(message) => {
                let hint = format!("`rekindle config reference` explains {name}");
                self.problem(&origin, &name, message, hint);
            }
        }
    }

    fn unknown(&mut self, origin: &Origin, name: &str, what: &str, known: &[&str]) {
        // A key of the file is known by its last word, one of a flag by the whole.
        let whole = known.iter().any(|known| known.contains('.'));
        let word = if whole { name } else { name.rsplit('.').next().unwrap_or(name) };
        let close = known.iter().max_by(|one, other| alike(word, one).total_cmp(&alike(word, other)));
        let hint = match close.filter(|close| alike(word, close) > 0.7) {
            Some(close) => format!("did you mean {close}?"),
            None => "`rekindle config reference` lists what there is".to_owned(),
        };
        self.problem(origin, name, format!("there is no such {what}"), hint);
    }

    fn problem(&mut self, origin: &Origin, key: &str, message: String, hint: String) {
        self.problems.push(Problem { origin: origin.to_string(), key: key.to_owned(), message, hint });
    }
}

/// How much of two words is the same, from 0 to 1: shared pairs of letters.
fn alike(one: &str, other: &str) -> f64 {
    let pairs =
        |word: &str| -> Vec<[u8; 2]> { word.as_bytes().windows(2).map(|pair| [pair[0], pair[1]]).collect() };
    let (one, mut other) = (pairs(one), pairs(other));
    let all = one.len() + other.len();
    let shared = one
        .iter()
        .filter(|pair| {
            other.iter().position(|there| there == *pair).map(|at| other.swap_remove(at)).is_some()
        })
        .count();
    if all == 0 { 0.0 } else { 2.0 * shared as f64 / all as f64 }
}
