//! The wheel of the Python SDK, made by the SDK's own tool with nothing but Python. Called by `dist`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::layout::output;
use crate::job::bound_command;
use crate::repo;

/// Makes the wheel in `out`. An SDK of another version than the server's is refused.
pub fn build(version: &str, epoch: &str, out: &Path) -> Result<PathBuf> {
    let tool = repo::root().join("sdk/python/tools/make_wheel.py");
    let mut python = bound_command("python3");
    python.args(["-I", "-B"]).arg(tool).arg(out).arg(version).env("SOURCE_DATE_EPOCH", epoch);
    Ok(PathBuf::from(String::from_utf8(output(&mut python)?)?.trim()))
}
