//! The one date of everything in a release.

use std::process::Command;

use anyhow::Result;

use super::layout::output;
use crate::job::bound_command;
use crate::{repo, rootfs};

/// The date of everything, in seconds since 1970.
pub fn epoch() -> String {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|text| text.parse::<u64>().is_ok());
    let commit = || {
        let mut git = Command::new("git");
        let said = output(git.current_dir(repo::root()).args(["log", "-1", "--format=%ct"])).ok()?;
        let text = String::from_utf8(said).ok()?.trim().to_owned();
        text.parse::<u64>().is_ok().then_some(text)
    };
    // An unpacked source archive has no commits.
    named.or_else(commit).unwrap_or_else(|| rootfs::EPOCH.to_owned())
}

/// That date as `date` writes it.
pub fn date(epoch: &str, format: &str) -> Result<String> {
    let said = output(bound_command("date").args(["--utc", "--date", &format!("@{epoch}"), format]))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}
