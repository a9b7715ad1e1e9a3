//! Benchmarks in the lab: the program and what it measures go in, the reports come out.
//!
//! Everything is copied off the shared directory first: reading it is slow there.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::machine::{Lab, Life};
use crate::cache::{Cache, MANIFEST};
use crate::hint::Hint;
use crate::{repo, rootfs, setup};

/// The directory in the share, and again in the lab's own memory.
const DIR: &str = "bench";

/// Runs the program with `words` and copies its reports to `out`.
pub fn run(cache: &Cache, program: &Path, template: &str, words: &[String], out: &Path) -> Result<ExitCode> {
    // One at a time: they would share the lab, and measure each other.
    let _alone = cache.scratch("lab-tests")?;
    let lab = Lab::join(cache, Life::Bound)?;
    let staged = lab.share().join(DIR);
    let _ = fs::remove_dir_all(&staged);
    stage(cache, &staged, program, template)?;
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    let script = format!(
        "rm -rf /room/{DIR}; cp -r /share/{DIR} /room/{DIR} && cd /room/{DIR} || exit 1; \
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
        eprintln!("reports, copied out of the lab: {}/report.{{html,md,json}}", out.display());
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn stage(cache: &Cache, staged: &Path, program: &Path, template: &str) -> Result<()> {
    let put = |source: &Path, target: &str| -> Result<()> {
        let target = staged.join(target);
        if let Some(dir) = target.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(source, &target)
            .with_context(|| format!("cannot copy {}", source.display()))
            .hint("run `cargo xtask build`")?;
        Ok(())
    };
    let firecracker = setup::find_firecracker(cache).context("there is no Firecracker binary")?;
    put(&firecracker, "bin/firecracker")?;
    super::suite::slim(&staged.join("bin/firecracker"));
    put(&firecracker.with_file_name("jailer"), "bin/jailer")?;
    put(program, "bin/rekindle-bench")?;
    put(&repo::root().join("benches/baseline.toml"), "baseline.toml")?;
    let image = format!("images/{template}/current");
    for (dir, file) in [("kernel/current", "vmlinux"), (image.as_str(), rootfs::IMAGE)] {
        for name in [file, MANIFEST] {
            put(&cache.root().join(dir).join(name), &format!("cache/{dir}/{name}"))?;
        }
    }
    Ok(())
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
