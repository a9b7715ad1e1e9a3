//! What a package is made of, built: the program, the agent, the kernel and the images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::npm;
use crate::agent::{self, TARGET};
use crate::cache::Cache;
use crate::hint::Hint;
use crate::{kernel, recipe, remap, repo, rootfs, setup};

/// Cargo's profile of a packaged program.
const PROFILE: &str = "packaged";

/// All of it.
pub struct Parts {
    /// The program.
    pub rekindle: PathBuf,
    /// The guest agent, which is also in every image.
    pub agent: PathBuf,
    /// The folder with the kernel, its configuration and its manifest.
    pub kernel: PathBuf,
    /// Each image's name and its folder.
    pub images: Vec<(String, PathBuf)>,
    /// The package of the compiler of the TypeScript SDK.
    pub compiler: PathBuf,
}

impl Parts {
    /// Builds what is not up to date. `target` is cargo's folder for the program.
    pub fn build(cache: &Cache, target: &Path) -> Result<Self> {
        setup::packages()?;
        let programs = agent::build()?;
        let rekindle = program(target)?;
        let kernel = kernel::build(cache)?.dir;
        let mut images = Vec::new();
        let rootfs = repo::root().join("rootfs");
        for name in recipe::names(&rootfs)? {
            // Who wants one of those builds it.
            if recipe::Recipe::load(&rootfs, &name)?.on_demand {
                continue;
            }
            let image = rootfs::build(cache, &name, &programs)?;
            images.push((name, image.dir));
        }
        for binary in [&rekindle, &programs.agent, &programs.native, &programs.clock] {
            no_path_of_this_machine(&fs::read(binary)?, binary)?;
        }
        // After the images, which bring it into the cache.
        let compiler = npm::compiler(cache)?;
        Ok(Self { rekindle, agent: programs.agent, kernel, images, compiler })
    }
}

fn program(target: &Path) -> Result<PathBuf> {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(repo::root())
        .args(["build", "--locked", "--package", "rekindle", "--bin", "rekindle"])
        .args(["--profile", PROFILE, "--target", TARGET, "--target-dir"])
        .arg(target)
        .env(remap::RUSTFLAGS, remap::rustflags(target, &[])?)
        .env("CFLAGS", remap::cflags(target)?)
        .status()
        .context("cannot start cargo")?;
    let path = target.join(TARGET).join(PROFILE).join("rekindle");
    (|| {
        ensure!(status.success() && path.is_file(), "rekindle does not build");
        Ok(path)
    })()
    .hint("cargo's messages above say why")
}

/// Refuses a program that tells where it was built: it would differ from one built elsewhere.
fn no_path_of_this_machine(bytes: &[u8], path: &Path) -> Result<()> {
    for (place, _) in remap::places(&repo::target_dir())? {
        let needle = place.as_os_str().as_encoded_bytes();
        let found = bytes.windows(needle.len()).position(|window| window == needle);
        if let Some(at) = found {
            let end = bytes[at..].iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(0);
            anyhow::bail!(
                "{} names {}",
                path.display(),
                String::from_utf8_lossy(&bytes[at..at + end.min(200)])
            );
        }
    }
    Ok(())
}

/// The oldest C library a program runs with: the newest version its symbols ask for.
pub fn libc_version(program: &[u8]) -> Result<String> {
    const MARK: &[u8] = b"GLIBC_";
    let version = |at: usize| {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?;
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        text.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()
    };
    let marks = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let newest = marks.filter_map(|(at, _)| version(at)).max().context("the program needs no C library")?;
    Ok(newest.iter().map(ToString::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_that_is_needed_is_the_newest_that_is_asked_for() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.9\0";
        assert_eq!(libc_version(program).unwrap(), "2.34");
        assert!(libc_version(b"static").is_err());
    }

    #[test]
    fn a_program_that_names_the_checkout_is_refused() {
        let named = format!("panicked at {}/src/x.rs\0", repo::root().display());
        let error = no_path_of_this_machine(named.as_bytes(), Path::new("p")).unwrap_err().to_string();
        assert!(error.contains("/src/x.rs"), "{error}");
        assert!(no_path_of_this_machine(b"panicked at /rekindle/src/x.rs\0", Path::new("p")).is_ok());
    }
}
