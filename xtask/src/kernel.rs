//! `cargo xtask kernel`: the guest kernel from Debian's source package.
//!
//! `kernel/rekindle.config` on top of the kernel's `tinyconfig`, everything else off; one
//! uncompressed ELF `vmlinux` for both engines. Cached by source version, configuration
//! and compiler.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::cache::{Built, Cache, MANIFEST};
use crate::hint::Hint;
use crate::job::{Job, bound_command};
use crate::{hash, repo, setup};

/// Debian's package with the kernel source, and what it installs.
const SOURCE_PACKAGE: &str = "linux-source-6.1";
const SOURCE_TARBALL: &str = "/usr/src/linux-source-6.1.tar.xz";
/// Raised when the way of building changes, so that old results are not taken for new ones.
const FORMAT: &str = "1";
/// The kernel's own pieces of `tinyconfig`, in the order in which it applies them.
const TINY: [&str; 3] =
    ["kernel/configs/tiny-base.config", "kernel/configs/tiny.config", "arch/x86/configs/tiny.config"];

/// What `manifest.json` says about a kernel.
#[derive(Serialize)]
struct Manifest<'a> {
    key: &'a str,
    sha256: String,
    size_bytes: u64,
    source: &'a str,
    config_sha256: String,
    compiler: &'a str,
    cpu_seconds: f64,
    build_seconds: f64,
}

struct Inputs {
    source: String,
    fragment: String,
    compiler: String,
}

/// Builds the kernel and says where it is.
pub fn run() -> Result<()> {
    setup::packages()?;
    let built = build(&Cache::open()?)?;
    println!("{}", built.dir.join("vmlinux").display());
    Ok(())
}

/// The kernel for the current inputs.
pub fn build(cache: &Cache) -> Result<Built> {
    let inputs = inputs()?;
    let key = hash::Key::default()
        .add("format", FORMAT)
        .add("source", &inputs.source)
        .add("config", &inputs.fragment)
        .add("compiler", &inputs.compiler)
        .finish();
    cache.build("kernel", &key, |work| make(cache, &inputs, &key, work))
}

fn inputs() -> Result<Inputs> {
    let version = setup::installed_version(SOURCE_PACKAGE)?
        .with_context(|| format!("the package {SOURCE_PACKAGE} is not installed"))
        .hint("run `cargo xtask setup`")?;
    let path = repo::root().join("kernel/rekindle.config");
    let fragment = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let compiler = setup::first_line(Command::new("gcc").arg("--version"))?;
    let linker = setup::first_line(Command::new("ld").arg("--version"))?;
    Ok(Inputs {
        source: format!("{SOURCE_PACKAGE} {version}"),
        fragment,
        compiler: format!("{compiler}; {linker}"),
    })
}

fn make(cache: &Cache, inputs: &Inputs, key: &str, work: &Path) -> Result<()> {
    let mut job = Job::start(cache, "kernel")?;
    let started = Instant::now();

    job.step(&format!("unpacking {}", inputs.source))?;
    let source = work.join("source");
    fs::create_dir(&source)?;
    // Tests of the kernel and descriptions of boards: a good part of the files, never read here.
    job.run(
        bound_command("tar")
            .args(["--strip-components=1", "--exclude=*/tools/testing", "--exclude=*/boot/dts", "-xf"])
            .arg(SOURCE_TARBALL)
            .arg("-C")
            .arg(&source),
    )?;

    job.step("configuring")?;
    configure(&mut job, inputs, &source)?;

    job.step("compiling (the first time takes minutes)")?;
    let before = children_cpu_seconds()?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    job.run(kernel_make(&source).arg(format!("-j{jobs}")).arg("vmlinux"))?;
    let cpu_seconds = children_cpu_seconds()? - before;

    job.step("finishing")?;
    let vmlinux = work.join("vmlinux");
    job.run(bound_command("strip").arg("-s").arg("-o").arg(&vmlinux).arg(source.join("vmlinux")))?;
    fs::copy(source.join(".config"), work.join("config"))?;
    // Addresses in an oops can be looked up here: the kernel carries no symbols itself.
    fs::copy(source.join("System.map"), work.join("System.map"))?;
    fs::remove_dir_all(&source)?;
    let manifest = Manifest {
        key,
        sha256: hash::file(&vmlinux)?,
        size_bytes: fs::metadata(&vmlinux)?.len(),
        source: &inputs.source,
        config_sha256: hash::file(&work.join("config"))?,
        compiler: &inputs.compiler,
        cpu_seconds: round(cpu_seconds),
        build_seconds: round(started.elapsed().as_secs_f64()),
    };
    fs::write(work.join(MANIFEST), serde_json::to_string_pretty(&manifest)? + "\n")?;
    job.finish(&format!("built from {} with {:.0} CPU-seconds of compiling", inputs.source, cpu_seconds));
    Ok(())
}

fn configure(job: &mut Job, inputs: &Inputs, source: &Path) -> Result<()> {
    let mut answers = String::new();
    for piece in TINY {
        let path = source.join(piece);
        answers += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    answers += &inputs.fragment;
    let book = source.join("rekindle-answers.config");
    fs::write(&book, answers)?;
    job.run(kernel_make(source).env("KCONFIG_ALLCONFIG", &book).arg("allnoconfig"))?;
    let result = fs::read_to_string(source.join(".config"))?;
    let missing = unmet(&inputs.fragment, &result);
    (|| {
        ensure!(missing.is_empty(), "the kernel did not accept these options:\n  {}", missing.join("\n  "));
        Ok(())
    })()
    .hint(
        "an option has another name in this kernel, or one it depends on is off; see kernel/rekindle.config",
    )
}

/// `make` in the source tree, free of this process's environment.
fn kernel_make(source: &Path) -> Command {
    let mut command = bound_command("nice");
    command.env_clear();
    command
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME" || name == "TMPDIR"));
    command.env("LC_ALL", "C");
    // Who built it, when and where is nobody's business, and would change every build.
    command.env("KBUILD_BUILD_TIMESTAMP", "2025-01-01").env("KBUILD_BUILD_USER", "rekindle");
    command.env("KBUILD_BUILD_HOST", "rekindle").env("KBUILD_BUILD_VERSION", "1");
    command.arg("make").arg("-s").arg("-C").arg(source).arg("ARCH=x86_64");
    command
}

/// The lines of the fragment that the final configuration does not honour.
fn unmet(fragment: &str, config: &str) -> Vec<String> {
    let lines: std::collections::HashSet<&str> = config.lines().collect();
    fragment
        .lines()
        .filter(|line| {
            if line.starts_with("CONFIG_") {
                return !lines.contains(line);
            }
            // "# CONFIG_X is not set" holds as well when the option is not even offered.
            let off = line.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set"));
            off.is_some_and(|name| {
                name.starts_with("CONFIG_") && lines.iter().any(|set| set.starts_with(&format!("{name}=")))
            })
        })
        .map(str::to_owned)
        .collect()
}

fn children_cpu_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read the CPU time of commands")?;
    let milliseconds = usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds();
    Ok(milliseconds as f64 / 1000.0)
}

fn round(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_the_kernel_dropped_is_reported() {
        let fragment = "# why\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        let config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n";
        assert_eq!(unmet(fragment, config), ["CONFIG_B=y", "# CONFIG_C is not set"]);
    }

    #[test]
    fn the_configuration_names_no_option_twice() {
        let text = fs::read_to_string(repo::root().join("kernel/rekindle.config")).unwrap();
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ").unwrap_or(line).strip_prefix("CONFIG_"))
            .map(|rest| rest.split(['=', ' ']).next().unwrap_or(rest))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
