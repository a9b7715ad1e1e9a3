//! Packages come from the index this machine is configured for, and only if their hash is right.
//!
//! Runs the real `xtask` binary, pip and npm against an index served on this machine. No image is
//! built: Debian's mirror is set to one that does not exist, so a build ends after the packages.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rekindle_test_support::skip;
use sha2::{Digest, Sha256};

/// A package index on a loopback port: paths to what they hold.
fn serve(files: HashMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = Arc::clone(&files);
            std::thread::spawn(move || answer(stream, &files));
        }
    });
    address
}

fn answer(mut stream: TcpStream, files: &HashMap<String, Vec<u8>>) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let kind = match path.rsplit('.').next() {
        Some("whl" | "tgz") => "application/octet-stream",
        _ if path.starts_with("/simple") => "text/html",
        _ => "application/json",
    };
    let (status, body) = files.get(path).map_or(("404 Not Found", &b"none"[..]), |body| ("200 OK", body));
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A checkout with one recipe of its own, and an empty cache.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(pins: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let status = Command::new("cp").arg("-R").arg(root.join("rootfs")).arg(dir.path()).status().unwrap();
        assert!(status.success());
        let minimal = fs::read_to_string(root.join("rootfs/minimal.toml")).unwrap();
        fs::write(dir.path().join("rootfs/pinned.toml"), format!("{minimal}\n{pins}")).unwrap();
        Self { dir }
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Tries to build, with both tools configured for `index`; what it said. It never succeeds.
    fn build(&self, index: &str) -> String {
        let nobody = "file:///nonexistent";
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["rootfs", "pinned"])
            .env("REKINDLE_REPO", self.dir.path())
            .env("REKINDLE_CACHE", self.cache())
            .env("REKINDLE_AGENT", "/bin/true")
            .env("REKINDLE_MIRROR", nobody)
            .env("REKINDLE_SECURITY_MIRROR", nobody)
            .env("HOME", self.dir.path())
            .env("PIP_CONFIG_FILE", "/dev/null")
            .env("PIP_INDEX_URL", format!("{index}/simple"))
            .env_remove("PIP_EXTRA_INDEX_URL")
            .env_remove("PIP_FIND_LINKS")
            .env("npm_config_registry", format!("{index}/npm/"))
            .env("NO_PROXY", "127.0.0.1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.starts_with("hint: ")), "{text}");
        text
    }

    /// The kept files, each as hash and name.
    fn kept(&self) -> Vec<String> {
        let list = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
        let mut kept: Vec<String> = list(self.cache().join("registry"))
            .flat_map(|folder| list(folder.path()))
            .map(|file| {
                let path = file.path();
                let relative = path.strip_prefix(self.cache().join("registry")).unwrap();
                relative.display().to_string()
            })
            .collect();
        kept.sort();
        kept
    }

    fn assert_no_leftovers(&self) {
        assert_eq!(fs::read_dir(self.cache().join("tmp")).unwrap().count(), 0);
    }
}

/// Two wheels of one version, of which the hash must pick the right one.
fn wheels() -> Vec<(String, Vec<u8>)> {
    const MAKE: &str = "import sys, zipfile
path, tag = sys.argv[1:]
with zipfile.ZipFile(path, 'w') as wheel:
    info = 'demo_kit-1.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: demo-kit\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', f'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n')
    wheel.writestr(info + 'RECORD', '')";
    let dir = tempfile::tempdir().unwrap();
    let make = |tag: &&str| {
        let name = format!("demo_kit-1.0-{tag}.whl");
        let path = dir.path().join(&name);
        let status = Command::new("python3").args(["-c", MAKE]).arg(&path).arg(tag).status().unwrap();
        assert!(status.success());
        (name, fs::read(path).unwrap())
    };
    ["py3-none-any", "cp313-cp313-manylinux2014_x86_64.manylinux_2_17_x86_64"].iter().map(make).collect()
}

fn python_index(wheels: &[(String, Vec<u8>)]) -> String {
    let mut files = HashMap::new();
    let mut page = String::from("<!DOCTYPE html><html><body>");
    for (name, bytes) in wheels {
        page += &format!("<a href=\"/files/{name}#sha256={}\">{name}</a>", sha256(bytes));
        files.insert(format!("/files/{name}"), bytes.clone());
    }
    files.insert("/simple/demo-kit/".to_owned(), (page + "</body></html>").into_bytes());
    serve(files)
}

fn pip_pin(sha256: &str) -> String {
    format!("[[pip]]\nname = \"demo-kit\"\nversion = \"1.0\"\nsha256 = \"{sha256}\"\n")
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_hash_picks_the_wheel_from_the_index_that_pip_is_configured_for() {
    if !has("pip3") || !has("mmdebstrap") {
        skip!("pip3 or mmdebstrap is not installed");
    }
    let wheels = wheels();
    let index = python_index(&wheels);
    for (name, bytes) in &wheels {
        let bench = Bench::new(&pip_pin(&sha256(bytes)));
        let text = bench.build(&index);
        assert!(text.contains("installing Debian trixie failed"), "{text}");
        assert_eq!(bench.kept(), [format!("{}/{name}", sha256(bytes))], "{text}");
        bench.assert_no_leftovers();
    }
}

#[test]
fn a_wheel_with_another_hash_is_refused_and_not_kept() {
    if !has("pip3") {
        skip!("pip3 is not installed");
    }
    let bench = Bench::new(&pip_pin(&"0".repeat(64)));
    let text = bench.build(&python_index(&wheels()));
    assert!(text.contains("hint: the package changed or was damaged on the way"), "{text}");
    assert!(bench.kept().is_empty(), "{:?}", bench.kept());
    bench.assert_no_leftovers();
}

#[test]
fn an_index_that_cannot_be_reached_or_lacks_the_package_is_told_apart() {
    if !has("pip3") {
        skip!("pip3 is not installed");
    }
    let bench = Bench::new(&pip_pin(&"0".repeat(64)));
    let text = bench.build("http://127.0.0.1:9");
    assert!(text.contains("hint: the package index cannot be reached"), "{text}");
    let text = bench.build(&serve(HashMap::new()));
    assert!(text.contains("hint: check name and version in the recipe"), "{text}");
    bench.assert_no_leftovers();
}

#[test]
fn npm_packages_come_from_the_registry_that_npm_is_configured_for() {
    if !has("npm") || !has("mmdebstrap") {
        skip!("npm or mmdebstrap is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("package")).unwrap();
    fs::write(dir.path().join("package/package.json"), r#"{"name":"demo-kit","version":"1.0.0"}"#).unwrap();
    let archive = dir.path().join("demo-kit-1.0.0.tgz");
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(dir.path()).arg("package").status();
    assert!(tar.unwrap().success());
    let bytes = fs::read(&archive).unwrap();

    // The registry's description names the archive by its full address, which is known only now.
    let archives = serve(HashMap::from([("/demo-kit-1.0.0.tgz".to_owned(), bytes.clone())]));
    let version = serde_json::json!({
        "name": "demo-kit", "version": "1.0.0", "dist": { "tarball": format!("{archives}/demo-kit-1.0.0.tgz") },
    });
    let description = serde_json::json!({
        "name": "demo-kit", "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": version },
    });
    let registry = serve(HashMap::from([("/npm/demo-kit".to_owned(), description.to_string().into_bytes())]));

    let pin =
        |sha256: &str| format!("[[npm]]\nname = \"demo-kit\"\nversion = \"1.0.0\"\nsha256 = \"{sha256}\"\n");
    let bench = Bench::new(&pin(&sha256(&bytes)));
    let text = bench.build(&registry);
    assert!(text.contains("installing Debian trixie failed"), "{text}");
    assert_eq!(bench.kept(), [format!("{}/demo-kit-1.0.0.tgz", sha256(&bytes))], "{text}");
    bench.assert_no_leftovers();

    let bench = Bench::new(&pin(&"0".repeat(64)));
    let text = bench.build(&registry);
    assert!(text.contains("no file of demo-kit 1.0.0 has sha256 000"), "{text}");
    assert!(bench.kept().is_empty(), "{:?}", bench.kept());
    bench.assert_no_leftovers();
}
