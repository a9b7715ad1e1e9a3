//! Where everything is in an installed tree. Package and tarball differ only in the prefix.
//!
//! ```text
//! <prefix>/bin/rekindle
//! <prefix>/lib/rekindle/rekindle-agent           for images of one's own
//! <prefix>/lib/systemd/system/rekindle.service
//! <prefix>/share/rekindle/kernel/<key>/…         as in the cache: a new version does not replace an old one's files
//! <prefix>/share/rekindle/images/<name>/<key>/…
//! <prefix>/share/rekindle/templates/<name>.toml
//! <prefix>/share/rekindle/proto/rekindle/v1/rekindle.proto
//! <prefix>/share/doc/rekindle/examples/…
//! <prefix>/share/{man,doc,bash-completion,zsh,fish}/…
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::pages;
use super::parts::Parts;
use super::tree::{Mode, Tree};
use crate::cache::MANIFEST;
use crate::job::bound_command;
use crate::{repo, rootfs};

/// The image that comes with the program.
pub const SMALL: &str = "minimal";

/// Where documents are.
const DOC: &str = "share/doc/rekindle";
/// Files by their path in the checkout, and where they are installed.
pub(super) const UNIT: (&str, &str) =
    ("packaging/systemd/rekindle.service", "lib/systemd/system/rekindle.service");
pub(super) const PROTO: (&str, &str) =
    ("api/proto/rekindle/v1/rekindle.proto", "share/rekindle/proto/rekindle/v1/rekindle.proto");
const CHANGES: (&str, &str) = ("CHANGELOG.md", "share/doc/rekindle/changelog.gz");

/// Scripts of shells, and where these look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/rekindle"),
    ("zsh", "share/zsh/vendor-completions/_rekindle"),
    ("fish", "share/fish/vendor_completions.d/rekindle.fish"),
];

/// Puts everything but the images below `at`, for a tree that will be installed at `prefix`.
pub fn program(tree: &Tree, at: &str, prefix: &str, parts: &Parts, sbom: &str) -> Result<()> {
    tree.copy(&format!("{at}bin/rekindle"), Mode::Program, &parts.rekindle)?;
    tree.copy(&format!("{at}lib/rekindle/rekindle-agent"), Mode::Program, &parts.agent)?;
    let unit = fs::read_to_string(repo::root().join(UNIT.0))?.replace("@PREFIX@", prefix);
    tree.write(&format!("{at}{}", UNIT.1), Mode::Data, unit)?;
    kernel(tree, at, &parts.kernel)?;
    for (shell, path) in COMPLETIONS {
        let script = output(Command::new(&parts.rekindle).args(["completions", shell]))?;
        tree.write(&format!("{at}{path}"), Mode::Data, script)?;
    }
    manual(tree, at, &parts.rekindle)?;
    tree.copy(&format!("{at}{}", PROTO.1), Mode::Data, &repo::root().join(PROTO.0))?;
    documents(tree, at)?;
    tree.write(&format!("{at}{DOC}/sbom.cdx.json"), Mode::Data, sbom)
}

/// Puts an image and the recipe of its template below `at`.
pub fn image(tree: &Tree, at: &str, name: &str, dir: &Path) -> Result<()> {
    let key = key_of(dir)?;
    let place = format!("{at}share/rekindle/images/{name}");
    for file in [rootfs::IMAGE, MANIFEST] {
        tree.copy(&format!("{place}/{key}/{file}"), Mode::Data, &dir.join(file))?;
    }
    tree.link(&format!("{place}/current"), key)?;
    let recipe = repo::root().join(format!("snapshots/{name}.toml"));
    tree.copy(&format!("{at}share/rekindle/templates/{name}.toml"), Mode::Data, &recipe)
}

/// What Debian wants in every package's folder of documents.
pub fn legal(tree: &Tree, package: &str, changelog: &str) -> Result<()> {
    let doc = format!("usr/share/doc/{package}");
    tree.copy(&format!("{doc}/copyright"), Mode::Data, &repo::root().join("packaging/copyright"))?;
    tree.write(&format!("{doc}/changelog.Debian.gz"), Mode::Data, gzip(changelog.as_bytes())?)
}

fn kernel(tree: &Tree, at: &str, dir: &Path) -> Result<()> {
    let key = key_of(dir)?;
    let place = format!("{at}share/rekindle/kernel");
    for file in ["vmlinux", "config"] {
        tree.copy(&format!("{place}/{key}/{file}"), Mode::Data, &dir.join(file))?;
    }
    let text = fs::read_to_string(dir.join(MANIFEST)).context("the kernel has no manifest")?;
    let mut manifest: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text)?;
    // How long it took to build is another each time.
    manifest.retain(|key, _| !key.ends_with("_seconds"));
    tree.write(
        &format!("{place}/{key}/{MANIFEST}"),
        Mode::Data,
        format!("{:#}\n", serde_json::json!(manifest)),
    )?;
    tree.link(&format!("{place}/current"), key)
}

fn manual(tree: &Tree, at: &str, rekindle: &Path) -> Result<()> {
    let pages = tempfile::tempdir()?;
    output(Command::new(rekindle).arg("man").arg(pages.path()))?;
    for page in fs::read_dir(pages.path())? {
        let page = page?;
        let path = format!("{at}share/man/man1/{}.gz", page.file_name().to_string_lossy());
        tree.write(&path, Mode::Data, gzip(&fs::read(page.path())?)?)?;
    }
    Ok(())
}

/// Everything in docs/ and examples/, and the changelog.
pub(super) fn documents(tree: &Tree, at: &str) -> Result<()> {
    for folder in ["docs", "examples"] {
        // What a run of an example has left beside it is none of the package's.
        let listed = output(bound_command("git").current_dir(repo::root().join(folder)).args(["ls-files"]))?;
        for name in String::from_utf8(listed)?.lines() {
            let (path, from) = (format!("{folder}/{name}"), repo::root().join(folder).join(name));
            let place = place(&path).context("documents have a place")?;
            if name.ends_with(".md") {
                let page = pages::packed(&path, &fs::read_to_string(&from)?);
                tree.write(&format!("{at}{place}"), Mode::Data, page)?;
            } else {
                tree.copy(&format!("{at}{place}"), Mode::Data, &from)?;
            }
        }
    }
    let changes = fs::read(repo::root().join("CHANGELOG.md"))?;
    tree.write(&format!("{at}{}", CHANGES.1), Mode::Data, gzip(&changes)?)
}

/// Where something of the checkout that a page may name is in an installed tree, if it is packed.
pub(super) fn place(path: &str) -> Option<String> {
    if let Some((_, place)) = [UNIT, PROTO, CHANGES].into_iter().find(|(from, _)| *from == path) {
        return Some(place.to_owned());
    }
    let below = |folder| path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let documents = below("docs").map(|rest| format!("{DOC}{rest}"));
    documents.or_else(|| below("examples").map(|rest| format!("{DOC}/examples{rest}")))
}

fn key_of(dir: &Path) -> Result<&str> {
    dir.file_name().and_then(|name| name.to_str()).context("a result of the cache has no name")
}

/// Compressed without name and time.
fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), content)?;
    output(bound_command("gzip").args(["--best", "--no-name", "--stdout"]).arg(file.path()))
}

/// What a command prints; failing is an error.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(output.stdout)
}
