//! What can go wrong with a control group.

use std::io;
use std::path::{Path, PathBuf};

use super::limits::Unenforced;

/// A control-group operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A file of the hierarchy could not be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel reported something that is not understood.
    #[error("cannot understand {}: {text:?}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was in it, shortened.
        text: String,
    },
    /// The name would not be one directory below the parent.
    #[error("{name:?} is not a valid control group name")]
    Name {
        /// The name.
        name: String,
    },
    /// The configuration demands limits that this host cannot enforce.
    #[error("limits are required but not enforceable here: {}\nhint: {}", list(.missing), Unenforced::hint(.missing))]
    Required {
        /// Each limit with its reason.
        missing: Vec<Unenforced>,
    },
    /// Processes in the group could not be killed in time.
    #[error("{count} processes in {} did not die", path.display())]
    Unkillable {
        /// The group.
        path: PathBuf,
        /// How many were left.
        count: usize,
    },
}

impl CgroupError {
    pub(super) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { operation, path: path.to_owned(), source }
    }
}

fn list(missing: &[Unenforced]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
