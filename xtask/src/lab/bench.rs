//! Benchmarks in the lab: the program and what it measures go in, the reports come out.
//!
//! Everything is copied off the shared directory first: reading it is slow there.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::groups::quote;
use super::machine::{Lab, Life};
use super::stage::Stage;
use crate::cache::Cache;
use crate::{repo, setup};

/// The directory in the share, and again in the lab's own memory.
const DIR: &str = "bench";

/// Runs the program with `words` and copies its reports to `out`.
pub fn run(cache: &Cache, program: &Path, template: &str, words: &[String], out: &Path) -> Result<ExitCode> {
    // One at a time: they would share the lab, and measure each other.
    let _alone = cache.scratch("lab-tests")?;
    let lab = Lab::join(cache, Life::Bound)?;
    let staged = lab.share().join(DIR);
    stage(cache, &staged, program, template)?;
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    // Snapshots lie as docs/guides/production-host.md advises: in memory, in large pages; scratch disks in small ones.
    let script = format!(
        "umount /room/{DIR}/data/run /room/{DIR}/data 2>/dev/null; rm -rf /room/{DIR}; cp -r /share/{DIR} /room/{DIR} && cd /room/{DIR} || exit 1; \
         mkdir data && mount -t tmpfs -o size=60%,huge=within_size templates data || exit 1; \
         mkdir data/run && mount -t tmpfs -o size=60% run data/run || exit 1; \
         export REKINDLE_CACHE=$PWD/cache REKINDLE_DATA=$PWD/data TMPDIR=/room \
         REKINDLE_FIRECRACKER=$PWD/bin/firecracker; \
         ./bin/rekindle-bench {} --baseline baseline.toml --out out; code=$?; \
         cp -r out /share/{DIR}/out 2>/dev/null; exit $code",
        words.join(" ")
    );
    let code = lab.run(&script, &mut std::io::stdout(), &mut std::io::stderr())?;
    if let Ok(reports) = fs::read_dir(staged.join("out")) {
        fs::create_dir_all(out)?;
        for report in reports {
            let report = report?;
            fs::copy(report.path(), out.join(report.file_name()))?;
        }
        eprintln!("reports, copied out of the lab: {}", out.display());
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn stage(cache: &Cache, staged: &Path, program: &Path, template: &str) -> Result<()> {
    let stage = Stage::empty(staged.to_owned());
    stage.monitor(&setup::find_firecracker(cache).context("there is no Firecracker binary")?)?;
    stage.put(program, "bin/rekindle-bench")?;
    stage.put(&repo::root().join("benches/baseline.toml"), "baseline.toml")?;
    stage.guest(cache, template)
}
