//! Finds Firecracker and its jailer and asks them who they are.
//!
//! Called once when the engine is set up, by detection and `doctor`.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::version::{FirecrackerVersion, Verdict};
use crate::config::Dirs;

/// Overrides where the program is looked for.
const PROGRAM_ENV: &str = "REKINDLE_FIRECRACKER";
/// When `1`, versions nobody has tried are accepted.
const UNTESTED_ENV: &str = "REKINDLE_FIRECRACKER_UNTESTED";
const PROGRAM: &str = "firecracker";
const JAILER: &str = "jailer";

/// A Firecracker that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFirecracker {
    /// The program, without symbolic links.
    pub path: PathBuf,
    /// Its jailer.
    pub jailer: PathBuf,
    /// The version of both.
    pub version: FirecrackerVersion,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No such program.
    #[error("{what} was not found{}\nhint: run `rekindle setup`, or set {PROGRAM_ENV} to the program of a release", place(.path))]
    Missing {
        /// Which of the two.
        what: &'static str,
        /// Where it was expected, when that is known.
        path: Option<PathBuf>,
    },
    /// It does not run.
    #[error("{} does not run", path.display())]
    Broken {
        /// The program.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Its answer is not understood.
    #[error("{} does not look like Firecracker: {answer:?}", path.display())]
    NotFirecracker {
        /// The program.
        path: PathBuf,
        /// Its first line, shortened.
        answer: String,
    },
    /// It is too old.
    #[error("{} is version {version}, at least {} is needed\nhint: run `rekindle setup`", path.display(), FirecrackerVersion::MINIMUM)]
    TooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: FirecrackerVersion,
    },
    /// Nobody has tried it.
    #[error("{} is version {version}, which is newer than what was tested ({})\nhint: install {}, or set {UNTESTED_ENV}=1 to try this one", path.display(), FirecrackerVersion::MINIMUM, FirecrackerVersion::MINIMUM)]
    Untested {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: FirecrackerVersion,
    },
    /// The two do not belong together.
    #[error("{} is version {jailer}, but Firecracker is {firecracker}\nhint: install both from one release", path.display())]
    Mismatch {
        /// The jailer.
        path: PathBuf,
        /// Its version.
        jailer: FirecrackerVersion,
        /// Firecracker's.
        firecracker: FirecrackerVersion,
    },
    /// The jailer needs root.
    #[error("the jailer needs root\nhint: run the supervisor as root; the monitors do not run as root")]
    NotRoot,
}

fn place(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" at {}", path.display())).unwrap_or_default()
}

/// Looks at the configured path, the environment, what `rekindle setup` fetched, then `PATH`; the jailer is
/// beside the program.
///
/// # Errors
/// When there is no usable pair; a configured one that is missing is not replaced by another.
pub fn find(configured: Option<&Path>) -> Result<FoundFirecracker, FindError> {
    let untested = env::var_os(UNTESTED_ENV).is_some_and(|value| value == "1");
    let found = find_programs(configured, untested)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(FindError::NotRoot);
    }
    Ok(found)
}

pub(super) fn find_programs(
    configured: Option<&Path>,
    untested: bool,
) -> Result<FoundFirecracker, FindError> {
    let chosen = configured.map(Path::to_owned).or_else(|| env::var_os(PROGRAM_ENV).map(PathBuf::from));
    let path = match chosen {
        Some(path) if path.is_file() => path,
        Some(path) => return Err(FindError::Missing { what: PROGRAM, path: Some(path) }),
        None => fetched().or_else(on_path).ok_or(FindError::Missing { what: PROGRAM, path: None })?,
    };
    // The jailer names the jail's directory after the resolved program.
    let path = path.canonicalize().map_err(|source| FindError::Broken { path: path.clone(), source })?;
    let version = version_of(&path)?;
    match version.verdict() {
        Verdict::Accepted => {}
        Verdict::TooOld => return Err(FindError::TooOld { path, version }),
        Verdict::Untested if untested => {
            tracing::warn!(%version, "this version of Firecracker is not tested");
        }
        Verdict::Untested => return Err(FindError::Untested { path, version }),
    }
    let jailer = path.with_file_name(JAILER);
    if !jailer.is_file() {
        return Err(FindError::Missing { what: JAILER, path: Some(jailer) });
    }
    let jailer_version = version_of(&jailer)?;
    if jailer_version != version {
        return Err(FindError::Mismatch { path: jailer, jailer: jailer_version, firecracker: version });
    }
    Ok(FoundFirecracker { path, jailer, version })
}

fn version_of(path: &Path) -> Result<FirecrackerVersion, FindError> {
    let output = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|source| FindError::Broken { path: path.to_owned(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    FirecrackerVersion::parse(line).ok_or_else(|| FindError::NotFirecracker {
        path: path.to_owned(),
        answer: line.chars().take(120).collect(),
    })
}

fn fetched() -> Option<PathBuf> {
    Dirs::find().ok().map(|dirs| dirs.firecracker().join(PROGRAM)).filter(|path| path.is_file())
}

fn on_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(PROGRAM)).find(|path| path.is_file())
}
