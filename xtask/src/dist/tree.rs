//! A tree of files that is packed later: modes are set here whatever the umask, times and owners by the packer.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Who may read and run a file; everything belongs to root.
#[derive(Debug, Clone, Copy)]
pub enum Mode {
    /// A file to read.
    Data = 0o644,
    /// A program or script.
    Program = 0o755,
}

/// A tree under construction.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty one, in the place of whatever is there.
    pub fn create(root: PathBuf) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
        }
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        let tree = Self { root };
        tree.dir("")?;
        Ok(tree)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file with this content.
    pub fn write(&self, path: &str, mode: Mode, content: impl AsRef<[u8]>) -> Result<()> {
        let target = self.place(path)?;
        fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
        set_mode(&target, mode as u32)
    }

    /// A copy of a file.
    pub fn copy(&self, path: &str, mode: Mode, from: &Path) -> Result<()> {
        let target = self.place(path)?;
        fs::copy(from, &target).with_context(|| format!("cannot copy {}", from.display()))?;
        set_mode(&target, mode as u32)
    }

    /// A symbolic link.
    pub fn link(&self, path: &str, to: &str) -> Result<()> {
        let target = self.place(path)?;
        symlink(to, &target).with_context(|| format!("cannot make {}", target.display()))
    }

    /// A directory, with those above it.
    pub fn dir(&self, path: &str) -> Result<()> {
        let mut dir = self.root.clone();
        set_mode(&dir, Mode::Program as u32)?;
        for part in Path::new(path).components() {
            dir.push(part);
            if !dir.is_dir() {
                fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
                set_mode(&dir, Mode::Program as u32)?;
            }
        }
        Ok(())
    }

    /// Every regular file, by its path in the tree, sorted.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    dirs.push(entry.path());
                } else if kind.is_file() {
                    files.push(entry.path().strip_prefix(&self.root)?.to_owned());
                }
            }
        }
        files.sort();
        Ok(files)
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        let target = self.root.join(path);
        let parent = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
        self.dir(parent)?;
        Ok(target)
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}
