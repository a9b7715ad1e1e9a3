//! What can go wrong with stored snapshots.

use std::io;
use std::path::{Path, PathBuf};

use super::compat::{Difference, list_differences};
use super::manifest::FORMAT;
use crate::config::TemplateName;

/// A store operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory could not be used.
    #[error("cannot {operation} {}{}", path.display(), hint(.source))]
    File {
        /// What was tried.
        operation: &'static str,
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no snapshot of that template at all.
    #[error("there is no snapshot of template {template}\nhint: run `rekindle template build {template}`")]
    Missing {
        /// The template.
        template: TemplateName,
    },
    /// There are snapshots, and none fits this host and these inputs.
    #[error("no snapshot of template {template} fits: {}\nhint: run `rekindle template build {template}`", list_differences(.differences))]
    Incompatible {
        /// The template.
        template: TemplateName,
        /// How the newest one differs.
        differences: Vec<Difference>,
    },
    /// A snapshot's files are not what its manifest says.
    #[error("the snapshot in {} is damaged: {what}\nhint: remove it with `rekindle template rm` and build it again", path.display())]
    Damaged {
        /// Its directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It was made by a version of this program with another format.
    #[error("the snapshot in {} has format {format}, and this version knows {FORMAT} alone\nhint: build the template again with `rekindle template build`, or use the version that made it", path.display())]
    Format {
        /// Its directory.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// It is in use and cannot be removed.
    #[error("the snapshot in {} is in use\nhint: stop the sandboxes made from it first", path.display())]
    InUse {
        /// Its directory.
        path: PathBuf,
    },
    /// A kernel or image is not there.
    #[error("{what} is missing: {}\nhint: {hint}", path.display())]
    NoArtifact {
        /// What.
        what: String,
        /// Where it was expected.
        path: PathBuf,
        /// What to do about it.
        hint: String,
    },
}

impl StoreError {
    pub(super) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { operation, path, source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "\nhint: free some space, or set REKINDLE_DATA to a larger disk",
        io::ErrorKind::PermissionDenied => "\nhint: set REKINDLE_DATA to a directory you may write to",
        _ => "",
    }
}
