//! The Debian packages the workspace builds and tests with.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use nix::unistd::geteuid;

use crate::cache::Cache;
use crate::hint::Hint;
use crate::job::Job;

/// A package, and the program that stands in for it when it came from elsewhere.
struct Package {
    name: &'static str,
    instead: Option<&'static str>,
}

const fn package(name: &'static str) -> Package {
    Package { name, instead: None }
}

/// `name` is not needed where the program is on the path already.
const fn or_program(name: &'static str, program: &'static str) -> Package {
    Package { name, instead: Some(program) }
}

/// Everything, grouped by what needs it.
const PACKAGES: &[Package] = &[
    // The guest kernel: source, compiler, and what its build calls.
    package("linux-source-6.1"),
    or_program("gcc", "gcc"),
    or_program("binutils", "ld"),
    or_program("make", "make"),
    or_program("flex", "flex"),
    or_program("bison", "bison"),
    or_program("bc", "bc"),
    or_program("xz-utils", "xz"),
    package("libc6-dev"),
    package("libelf-dev"),
    // Root images.
    package("mmdebstrap"),
    package("erofs-utils"),
    package("debian-archive-keyring"),
    or_program("fakeroot", "fakeroot"),
    or_program("uidmap", "newuidmap"),
    or_program("curl", "curl"),
    or_program("python3-pip", "pip3"),
    package("ca-certificates"),
    // The lab unpacks Debian 13's kernel with it.
    or_program("zstd", "zstd"),
    // Checks the unit file of the package.
    or_program("systemd", "systemd-analyze"),
    // The portable engine and its scratch disks.
    or_program("qemu-system-x86", "qemu-system-x86_64"),
    or_program("e2fsprogs", "mkfs.ext4"),
    // Interpreters that the agent's tests run on this machine.
    or_program("python3", "python3"),
    or_program("nodejs", "node"),
    // Its server, behind the gate of the tests' sandboxes.
    or_program("git", "git"),
];

/// What benchmarks run beside a sandbox, to compare it with. Nothing else needs them.
const COMPARED: &[Package] = &[or_program("bubblewrap", "bwrap"), or_program("crun", "crun")];

/// A browser that looks at reports as people do. One test needs it, and skips without.
const BROWSER: &[Package] = &[or_program("chromium-headless-shell", "chromium")];

/// Installs what is missing when root; otherwise fails with the line to run.
pub fn ensure() -> Result<()> {
    install(&missing_of(PACKAGES)?)
}

/// Installs what benchmarks compare with; without it they leave that out and say so.
pub fn ensure_compared() -> Result<()> {
    install(&missing_of(COMPARED)?)
}

/// Installs a browser when root; anybody else may go without, and is told how to get it.
pub fn ensure_browser() -> Result<()> {
    let missing = missing_of(BROWSER)?;
    if !missing.is_empty() && !geteuid().is_root() {
        let names = missing.join(" ");
        eprintln!(
            "there is no browser to look at reports with: sudo apt-get install --no-install-recommends {names}"
        );
        return Ok(());
    }
    install(&missing)
}

fn install(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if !geteuid().is_root() {
        return Err(anyhow!("system packages are missing: {}", missing.join(" ")))
            .hint(format!("run: sudo {line}"));
    }
    let mut job = Job::start(&Cache::open()?, "packages")?;
    job.step("updating the package lists")?;
    // Stale lists may still do; a failure shows when the packages are installed.
    let _ = job.run(apt().arg("update"));
    job.step(&format!("installing {}", missing.join(" ")))?;
    job.run(apt().args(["install", "--yes", "--no-install-recommends"]).args(missing))?;
    job.finish(&format!("installed {}", missing.join(" ")));
    Ok(())
}

/// The packages that are not there.
pub fn missing() -> Result<Vec<&'static str>> {
    missing_of(PACKAGES)
}

fn missing_of(packages: &[Package]) -> Result<Vec<&'static str>> {
    if !Path::new("/usr/bin/dpkg-query").is_file() {
        return Err(anyhow!("this machine has no dpkg: only Debian and its relatives can build images"))
            .hint("build in a Debian 12 container or virtual machine");
    }
    let installed = query(&packages.iter().map(|package| package.name).collect::<Vec<_>>())?;
    Ok(packages
        .iter()
        .filter(|package| !installed.contains_key(package.name))
        .filter(|package| !package.instead.is_some_and(on_path))
        .map(|package| package.name)
        .collect())
}

/// The installed version of one package.
pub fn installed_version(name: &str) -> Result<Option<String>> {
    static VERSIONS: OnceLock<HashMap<String, String>> = OnceLock::new();
    if let Some(version) = VERSIONS.get().and_then(|versions| versions.get(name)) {
        return Ok(Some(version.clone()));
    }
    // One process for all: every command asks for several of them.
    let versions = query(&PACKAGES.iter().map(|package| package.name).collect::<Vec<_>>())?;
    let version = versions.get(name).cloned();
    let _ = VERSIONS.set(versions);
    Ok(version)
}

/// The first line a program prints, such as its version.
pub fn first_line(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}"))
        .hint("run `cargo xtask setup` to install what is missing")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) => Ok(line.to_owned()),
        None => bail!("{program} printed nothing"),
    }
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["--quiet", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=20"]);
    command.args(["-o", "DPkg::Lock::Timeout=300"]);
    command
}

fn query(names: &[&str]) -> Result<HashMap<String, String>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${binary:Package} ${Version} ${db:Status-Status}\n"])
        .args(names)
        .output()
        .context("cannot start dpkg-query")?;
    // Its exit code only says that some are missing.
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

fn parse(text: &str) -> HashMap<String, String> {
    let mut versions = HashMap::new();
    for line in text.lines() {
        if let [name, version, "installed"] = line.split(' ').collect::<Vec<_>>()[..] {
            // "libelf-dev:amd64" on machines with several architectures.
            let name = name.split(':').next().unwrap_or(name);
            versions.insert(name.to_owned(), version.to_owned());
        }
    }
    versions
}

/// Whether a program is installed, from Debian or elsewhere.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // System tools are not on an ordinary user's path.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let versions =
            parse("gcc 4:12.2.0-3 installed\nbison  not-installed\nlibelf-dev:amd64 0.188 installed\n");
        assert_eq!(versions.len(), 2);
        assert_eq!(versions["libelf-dev"], "0.188");
    }
}
