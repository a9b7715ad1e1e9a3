//! `rekindle setup`: fetches the Firecracker release Rekindle is tested with, checks it, and says what else is
//! missing here.
//!
//! ```text
//! curl, or --from FILE ──▶ an archive aside ──SHA-256──▶ unpacked aside ──rename──▶ <data>/firecracker/
//! ```
//!
//! Nothing is unpacked before its hash was checked, and nothing half-made is ever found by an engine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use rekindle::config::Dirs;
use rekindle_firecracker_release::{MIRROR_ENV, RELEASES, Release, VERSION};
use sha2::{Digest, Sha256};

use super::args::DoctorOptions;
use super::doctor;
use super::progress::Progress;

/// Options of `setup`.
#[derive(Debug, Args)]
pub struct SetupOptions {
    /// An archive of the release that was downloaded already, for hosts without a way to the network
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// A mirror of Firecracker's releases
    #[arg(long, value_name = "URL", env = MIRROR_ENV, conflicts_with = "from")]
    mirror: Option<String>,
}

/// Runs the command: code 0 when a sandbox can run here.
pub async fn setup(options: SetupOptions) -> anyhow::Result<u8> {
    let place = Dirs::find()?.firecracker();
    let release = Release::pinned(options.mirror)?;
    if is_there(&place, &release) {
        eprintln!("firecracker: {VERSION} is in {} already", place.display());
    } else {
        let progress = Progress::start("firecracker".to_owned());
        progress.step(&match &options.from {
            Some(file) => format!("checking {}", file.display()),
            None => format!("fetching {}", release.url()),
        });
        install(&release, options.from.as_deref(), &place)?;
        progress.done(&format!("{VERSION} is in {}", place.display()));
    }
    doctor::doctor(&DoctorOptions { json: false }).await
}

/// Puts the release in its place.
fn install(release: &Release, from: Option<&Path>, place: &Path) -> anyhow::Result<()> {
    let parent = place.parent().context("there is no place for it")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let aside = tempfile::Builder::new()
        .prefix(".firecracker-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot write to {}", parent.display()))?;
    let fetched = aside.path().join("archive");
    let archive = match from {
        Some(file) => file,
        None => {
            download(release, &fetched)?;
            &fetched
        }
    };
    check(release, archive)?;
    let unpacked = aside.path().join("release");
    fs::create_dir(&unpacked)?;
    release.unpack(archive, &unpacked)?;
    fs::write(unpacked.join("SHA256"), format!("{}\n", release.sha256))?;
    // What was there before moves into the directory that goes away.
    match fs::rename(place, aside.path().join("old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", place.display()));
        }
        _ => {}
    }
    fs::rename(&unpacked, place).with_context(|| format!("cannot put it into {}", place.display()))
}

/// Whether this very release was put there.
fn is_there(place: &Path, release: &Release) -> bool {
    fs::read_to_string(place.join("SHA256")).is_ok_and(|text| text.trim() == release.sha256)
        && place.join("firecracker").is_file()
}

fn download(release: &Release, to: &Path) -> anyhow::Result<()> {
    let url = release.url();
    // Not from a mirror that may be what is wrong.
    let official = Release { base: RELEASES.to_owned(), ..release.clone() }.url();
    let by_hand = format!("download {official} elsewhere and run `rekindle setup --from FILE`");
    let output = Command::new("curl")
        .args(["--fail", "--silent", "--show-error", "--location", "--retry", "3"])
        .args(["--connect-timeout", "10", "--speed-limit", "1000", "--speed-time", "30", "--output"])
        .arg(to)
        .arg(&url)
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let why = last_words(&output.stderr);
            bail!("{url} cannot be fetched: {why}\nhint: check the network, or {by_hand}")
        }
        Err(error) => bail!("curl does not run: {error}\nhint: apt-get install curl, or {by_hand}"),
    }
}

/// Why the last try failed: curl says it once for each.
fn last_words(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    said.trim().lines().last().unwrap_or("curl did not say why").to_owned()
}

fn check(release: &Release, archive: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != release.sha256 {
        bail!(
            "this is not Firecracker {VERSION} as it was released: its SHA-256 is {found}, expected {}\n\
             hint: do not use it; fetch {} again",
            release.sha256,
            release.url()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
