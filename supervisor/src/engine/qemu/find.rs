//! Finds the program and asks it who it is.
//!
//! Called once when the engine is set up, by detection and `doctor`.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::version::QemuVersion;

/// Overrides where the program is looked for.
const PROGRAM_ENV: &str = "REKINDLE_QEMU";
const PROGRAM: &str = "qemu-system-x86_64";
/// Characters of its answer that are looked at.
const MAX_LINE: usize = 400;

/// A QEMU that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundQemu {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: QemuVersion,
    /// The version as it states it, with the distribution's part.
    pub version_text: String,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No such program.
    #[error("{PROGRAM} was not found{}\nhint: install it (Debian: apt install qemu-system-x86) or set {PROGRAM_ENV}", place(.path))]
    Missing {
        /// Where it was expected, when that was configured.
        path: Option<PathBuf>,
    },
    /// It does not run.
    #[error("{} does not run\nhint: install it again, or set {PROGRAM_ENV} to one that does", path.display())]
    Broken {
        /// The program.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Its answer is not understood.
    #[error("{} does not look like QEMU: {answer:?}\nhint: set {PROGRAM_ENV} to {PROGRAM}", path.display())]
    NotQemu {
        /// The program.
        path: PathBuf,
        /// Its first line, shortened.
        answer: String,
    },
    /// It is too old.
    #[error("{} is version {version}, at least {} is needed\nhint: install a newer one or set {PROGRAM_ENV}", path.display(), QemuVersion::MINIMUM)]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: QemuVersion,
    },
}

fn place(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" at {}", path.display())).unwrap_or_default()
}

/// Looks at the configured path, then the environment, then `PATH`.
///
/// # Errors
/// When there is no usable program; a configured one that is missing is not replaced by another.
pub fn find(configured: Option<&Path>) -> Result<FoundQemu, FindError> {
    let chosen = configured.map(Path::to_owned).or_else(|| env::var_os(PROGRAM_ENV).map(PathBuf::from));
    let path = match chosen {
        Some(path) if path.is_file() => path,
        Some(path) => return Err(FindError::Missing { path: Some(path) }),
        None => on_path().ok_or(FindError::Missing { path: None })?,
    };
    let line = ask(&path).map_err(|source| FindError::Broken { path: path.clone(), source })?;
    let Some(version) = QemuVersion::parse(&line) else {
        return Err(FindError::NotQemu { path, answer: line.chars().take(120).collect() });
    };
    if version < QemuVersion::MINIMUM {
        return Err(FindError::TooOld { path, version });
    }
    let version_text = line.rsplit("version ").next().unwrap_or_default().trim().to_owned();
    Ok(FoundQemu { path, version, version_text })
}

/// The first line of what it says about its version.
fn ask(program: &Path) -> io::Result<String> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().chars().take(MAX_LINE).collect())
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(PROGRAM)).find(|path| path.is_file())
}
