//! Snapshot recipes: `snapshots/*.toml`, parsed strictly. The keys are explained in `minimal.toml`.
//!
//! Called when a template is built or looked up. A recipe's digest is part of a snapshot's identity, so it
//! covers everything that changes the snapshot and nothing that does not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rekindle_protocol::limits::{MAX_WARM_MODULES, MAX_WARM_NODES};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::installation::Installation;
use super::template::TemplateName;

/// Most virtual processors.
const MAX_VCPUS: u32 = 32;
/// Memory of a machine, in MiB.
const MEMORY_MIB: std::ops::RangeInclusive<u32> = 64..=65_536;
/// Size of a scratch disk, in MiB.
const SCRATCH_MIB: std::ops::RangeInclusive<u64> = 16..=1_048_576;
/// Longest time a step may have, in seconds.
const MAX_TIMEOUT_S: u64 = 3_600;
/// Kernel arguments that the engine sets.
const RESERVED_ARGS: [&str; 7] = ["init", "root", "rootfstype", "ro", "rw", "console", "panic"];

/// What is booted, warmed up and frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The template's name, which is the file's.
    pub name: TemplateName,
    /// One line about it.
    #[serde(skip)]
    pub description: String,
    /// Name of the root image.
    pub image: TemplateName,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size of the scratch disk in MiB.
    pub scratch_mib: u64,
    /// Words added to the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Run in order before the snapshot; each must succeed.
    pub warmup: Vec<Step>,
    /// Must succeed right before the snapshot.
    pub ready: Option<Step>,
    /// Interpreters that are kept warm in the snapshot.
    pub warm: Warm,
    /// Whether callers may be root in its sandboxes. The snapshot is the same.
    #[serde(skip)]
    pub root: bool,
}

/// Interpreters that wait in the snapshot for code to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Warm {
    /// Modules a warm Python has imported; `None` keeps no Python warm.
    pub python: Option<Vec<String>>,
    /// Modules a second Python has imported on top, for programs that may need one of them.
    pub packages: Vec<String>,
    /// Node processes that wait.
    pub node: u32,
    /// Whether clones are expected to begin with Python: what its first program writes to is then copied before a
    /// guest runs, where the engine gains by it.
    pub python_first: bool,
}

/// One thing run in the guest while a template is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What.
    pub run: Run,
    /// How long it may take.
    pub timeout: Duration,
}

/// What a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Run {
    /// A program and its arguments.
    Command(Vec<String>),
    /// A line for the shell.
    Shell(String),
    /// Source code.
    Code {
        /// Its language.
        language: Language,
        /// The text.
        source: String,
    },
}

/// Languages code can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript on Node.
    Node,
    /// Bash.
    Bash,
}

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// There is no such recipe.
    #[error("there is no template named {name}{}", hint(.known))]
    Unknown {
        /// The name.
        name: TemplateName,
        /// The names there are.
        known: Vec<String>,
    },
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The file is not a recipe.
    #[error(
        "{name} is not a valid recipe: {message}\nhint: the keys are explained at the top of {}",
        Installation::of_this_program().recipe_guide()
    )]
    Invalid {
        /// The template.
        name: TemplateName,
        /// What is wrong.
        message: String,
    },
}

fn hint(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("\nhint: there are {}", names.join(", ")) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecipe {
    description: String,
    image: TemplateName,
    #[serde(default = "default_vcpus")]
    vcpus: u32,
    #[serde(default = "default_memory")]
    memory_mib: u32,
    #[serde(default = "default_scratch")]
    scratch_mib: u64,
    #[serde(default)]
    kernel_args: Vec<String>,
    #[serde(default)]
    warmup: Vec<RawStep>,
    ready: Option<RawStep>,
    #[serde(default)]
    warm: Warm,
    #[serde(default)]
    root: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    command: Option<Vec<String>>,
    shell: Option<String>,
    code: Option<RawCode>,
    #[serde(default = "default_timeout")]
    timeout_s: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCode {
    language: Language,
    source: String,
}

fn default_vcpus() -> u32 {
    2
}
fn default_memory() -> u32 {
    2048
}
fn default_scratch() -> u64 {
    1024
}
fn default_timeout() -> u64 {
    120
}

impl Recipe {
    /// Reads `<name>.toml` from the first of `dirs` that has it.
    ///
    /// # Errors
    /// When none has it, or it is not a recipe.
    pub fn load(name: &TemplateName, dirs: &[PathBuf]) -> Result<Self, RecipeError> {
        for dir in dirs {
            let path = dir.join(format!("{name}.toml"));
            match fs::read_to_string(&path) {
                Ok(text) => return Self::parse(name, &text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(RecipeError::Read { path, source }),
            }
        }
        Err(RecipeError::Unknown { name: name.clone(), known: Self::names(dirs) })
    }

    /// The names of the recipes in `dirs`, sorted.
    #[must_use]
    pub fn names(dirs: &[PathBuf]) -> Vec<String> {
        let name = |path: &Path| {
            let stem = path.file_stem()?.to_str()?;
            (path.extension()? == "toml" && stem.parse::<TemplateName>().is_ok()).then(|| stem.to_owned())
        };
        let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| name(&entry.path())).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Parses and checks one recipe.
    ///
    /// # Errors
    /// When the text is not a recipe; the message says where.
    pub fn parse(name: &TemplateName, text: &str) -> Result<Self, RecipeError> {
        let invalid = |message: String| RecipeError::Invalid { name: name.clone(), message };
        let raw: RawRecipe = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let recipe = Self {
            name: name.clone(),
            description: raw.description,
            image: raw.image,
            vcpus: raw.vcpus,
            memory_mib: raw.memory_mib,
            scratch_mib: raw.scratch_mib,
            kernel_args: raw.kernel_args,
            warmup: raw.warmup.into_iter().map(step).collect::<Result<_, _>>().map_err(invalid)?,
            ready: raw.ready.map(step).transpose().map_err(invalid)?,
            warm: raw.warm,
            root: raw.root,
        };
        recipe.check().map_err(invalid)?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=MAX_VCPUS).contains(&self.vcpus) {
            return Err(format!("vcpus is {}, from 1 to {MAX_VCPUS} is possible", self.vcpus));
        }
        if !MEMORY_MIB.contains(&self.memory_mib) {
            return Err(format!("memory_mib is {}, possible is {MEMORY_MIB:?}", self.memory_mib));
        }
        if !SCRATCH_MIB.contains(&self.scratch_mib) {
            return Err(format!("scratch_mib is {}, possible is {SCRATCH_MIB:?}", self.scratch_mib));
        }
        for argument in &self.kernel_args {
            let key = argument.split('=').next().unwrap_or_default();
            let plain = !argument.is_empty() && argument.chars().all(|c| c.is_ascii_graphic());
            if !plain || RESERVED_ARGS.contains(&key) || key.starts_with("rekindle.") {
                return Err(format!("kernel_args: {argument:?} is not one word, or is set by the engine"));
            }
        }
        self.warm.check()
    }

    /// SHA-256 of everything that changes the snapshot, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("a recipe of strings and numbers is always JSON");
        Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Warm {
    fn check(&self) -> Result<(), String> {
        if self.node > MAX_WARM_NODES {
            return Err(format!("warm.node is {}, at most {MAX_WARM_NODES} is possible", self.node));
        }
        if self.python.is_none() && !self.packages.is_empty() {
            return Err("warm.packages is of no use without warm.python".into());
        }
        if self.python.is_none() && self.python_first {
            return Err("warm.python_first is of no use without warm.python".into());
        }
        let modules = self.python.as_deref().unwrap_or_default();
        if modules.len() + self.packages.len() > MAX_WARM_MODULES {
            return Err(format!("warm.python and warm.packages name more than {MAX_WARM_MODULES} modules"));
        }
        for (key, names) in [("python", modules), ("packages", &self.packages)] {
            if let Some(name) = names.iter().find(|name| !is_module(name)) {
                return Err(format!("warm.{key}: {name:?} is not the name of a module"));
            }
        }
        Ok(())
    }
}

/// Identifiers joined by dots.
fn is_module(name: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    name.split('.').all(word)
}

fn step(raw: RawStep) -> Result<Step, String> {
    if raw.timeout_s == 0 || raw.timeout_s > MAX_TIMEOUT_S {
        return Err(format!("timeout_s is {}, from 1 to {MAX_TIMEOUT_S} is possible", raw.timeout_s));
    }
    let run = match (raw.command, raw.shell, raw.code) {
        (Some(argv), None, None) if !argv.is_empty() => Run::Command(argv),
        (None, Some(line), None) => Run::Shell(line),
        (None, None, Some(code)) => Run::Code { language: code.language, source: code.source },
        _ => return Err("a step needs exactly one of command, shell and code".to_owned()),
    };
    Ok(Step { run, timeout: Duration::from_secs(raw.timeout_s) })
}

#[cfg(test)]
mod tests;
