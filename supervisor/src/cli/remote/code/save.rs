//! Writes images and documents that code shows to files. Their names are ours, what is there stays there, and a guest
//! decides nothing but their content.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rekindle_api::v1::CodeResult;

/// Files of one name in a directory.
const MOST: u32 = 10_000;

/// A directory for images.
#[derive(Debug)]
pub struct Gallery {
    dir: PathBuf,
    /// The number of the next one.
    next: u32,
}

impl Gallery {
    /// Makes the directory where it is not there.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), next: 1 })
    }

    /// Keeps every form of a result that is a file, and says where.
    pub fn keep(&mut self, result: &CodeResult) -> anyhow::Result<()> {
        for (ending, content) in forms(result) {
            let path = self.write(ending, content)?;
            eprintln!("rekindle: wrote {}", path.display());
        }
        Ok(())
    }

    fn write(&mut self, ending: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        while self.next < MOST {
            let path = self.dir.join(format!("result-{}.{ending}", self.next));
            self.next += 1;
            // Also not through a link that somebody has put there.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let written = file.write_all(content);
                    written.with_context(|| format!("cannot write {}", path.display()))?;
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot write {}", path.display()));
                }
            }
        }
        bail!("{} has no room for more results\nhint: name another directory", self.dir.display())
    }
}

/// The forms of a result that are files, by their usual endings.
pub fn forms(result: &CodeResult) -> Vec<(&'static str, &[u8])> {
    let forms = [
        ("png", result.png.as_deref()),
        ("jpg", result.jpeg.as_deref()),
        ("svg", result.svg.as_deref().map(str::as_bytes)),
        ("pdf", result.pdf.as_deref()),
    ];
    forms.into_iter().filter_map(|(ending, content)| Some((ending, content?))).collect()
}

#[cfg(test)]
mod tests {
    //! What is there stays there.

    use super::*;

    #[test]
    fn files_are_numbered_and_never_written_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("a/b");
        let mut gallery = Gallery::open(&deep).expect("made");
        fs::write(deep.join("result-1.png"), "old").expect("written");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), deep.join("result-2.png")).expect("a link");
        let result =
            CodeResult { png: Some(vec![1, 2].into()), svg: Some("<svg/>".into()), ..CodeResult::default() };
        gallery.keep(&result).expect("kept");
        assert_eq!(fs::read(deep.join("result-1.png")).expect("there"), b"old");
        assert!(!dir.path().join("elsewhere").exists(), "written through a link");
        assert_eq!(fs::read(deep.join("result-3.png")).expect("there"), [1, 2]);
        assert_eq!(fs::read(deep.join("result-4.svg")).expect("there"), b"<svg/>");
    }
}
