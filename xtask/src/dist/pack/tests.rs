//! Packages from small parts: the same bytes whenever and wherever, and everything in its place.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;
use crate::cache::Cache;
use crate::dist::install;
use crate::dist::layout::output;

/// Parts that look like real ones; the program is a script that prints what is asked of it.
fn parts(dir: &Path) -> Parts {
    let file = |name: &str, content: &str| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    };
    let script =
        "#!/bin/sh\n# GLIBC_2.34\n[ \"$1\" = man ] && echo page > \"$2/rekindle.1\" || echo script\n";
    let rekindle = file("rekindle", script);
    fs::set_permissions(&rekindle, fs::Permissions::from_mode(0o700)).unwrap();
    let manifest = r#"{ "sha256": "s", "source": "linux-source-6.1 6.1.1-1", "build_seconds": SECONDS,
        "packages": ["bash 5.2-1"] }"#;
    // Each build of a kernel takes another time.
    let seconds = dir.as_os_str().len().to_string() + ".5";
    file("kernel/k1/manifest.json", &manifest.replace("SECONDS", &seconds));
    file("kernel/k1/config", "CONFIG_A=y\n");
    let kernel = file("kernel/k1/vmlinux", "elf").parent().unwrap().to_owned();
    let image = |name: &str| {
        file(&format!("{name}/i1/manifest.json"), manifest.replace("SECONDS", "1").as_str());
        (name.to_owned(), file(&format!("{name}/i1/image.erofs"), name).parent().unwrap().to_owned())
    };
    let agent = file("agent", "agent");
    let images = vec![image("minimal"), image("python-node")];
    // Stands in for the compiler, which takes its time.
    let script = "const fs = require('fs'), out = process.argv.at(-1); fs.mkdirSync(out); fs.writeFileSync(out + '/index.js', '');";
    file("package/bin/tsc", script);
    let compiler = dir.join("compiler.tgz");
    let mut tar = Command::new("tar");
    output(tar.arg("--create").arg("--file").arg(&compiler).arg("--directory").arg(dir).arg("package"))
        .unwrap();
    Parts { rekindle, agent, kernel, images, compiler }
}

fn contents(deb: &Path) -> String {
    String::from_utf8(output(Command::new("dpkg-deb").arg("--contents").arg(deb)).unwrap()).unwrap()
}

#[test]
fn packing_twice_gives_the_same_bytes_whatever_the_place_the_time_and_the_modes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = pack(&parts(one.path()), &one.path().join("out")).unwrap();
    // Another place, another time of the sources, other modes.
    let second_parts = parts(&other.path().join("a/longer/place"));
    let old = fs::File::open(&second_parts.agent).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::set_permissions(&second_parts.agent, fs::Permissions::from_mode(0o600)).unwrap();
    let second = pack(&second_parts, &other.path().join("out")).unwrap();
    let sums = fs::read_to_string(first.sums).unwrap();
    assert_eq!(sums, fs::read_to_string(second.sums).unwrap());
    assert_eq!(sums.lines().count(), 6, "{sums}");
}

#[test]
fn a_package_belongs_to_root_and_keeps_what_an_operator_changes() {
    let dir = tempfile::tempdir().unwrap();
    let dist = pack(&parts(dir.path()), &dir.path().join("out")).unwrap();
    let list = contents(&dist.package);
    for path in [
        "./usr/bin/rekindle",
        "./usr/share/rekindle/images/minimal/current -> i1",
        "./usr/share/rekindle/kernel/k1/vmlinux",
        "./usr/share/rekindle/templates/minimal.toml",
        "./usr/lib/systemd/system/rekindle.service",
        "./usr/share/man/man1/rekindle.1.gz",
        "./usr/share/doc/rekindle/guides/install.md",
        "./etc/rekindle/templates/",
    ] {
        assert!(list.contains(path), "{path} is not in\n{list}");
    }
    assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
    assert!(!list.contains("python-node/"), "the large image has a package of its own");
    assert!(contents(&dist.python_node).contains("images/python-node/i1/image.erofs"));
    let field = |name: &str| {
        let mut command = Command::new("dpkg-deb");
        let said = output(command.arg("--field").arg(&dist.package).arg(name)).unwrap();
        String::from_utf8(said).unwrap().trim().to_owned()
    };
    assert_eq!(field("Version"), VERSION);
    assert!(field("Depends").contains("libc6 (>= 2.34)"), "{}", field("Depends"));
    let control = dir.path().join("control");
    output(Command::new("dpkg-deb").arg("--control").arg(&dist.package).arg(&control)).unwrap();
    assert_eq!(fs::read_to_string(control.join("conffiles")).unwrap(), "/etc/rekindle/rekindle.toml\n");
}

#[test]
fn the_container_is_made_from_what_is_packed_and_has_what_it_recommends() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let dist = pack(&parts(dir.path()), &out).unwrap();
    let read = |name| fs::read_to_string(repo::root().join("packaging/container").join(name)).unwrap();
    let file = read("Dockerfile");
    let copied: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
    let [copied] = copied[..] else { panic!("one file is copied, not {copied:?}") };
    let (pattern, _) = copied.split_once(' ').unwrap();
    let (start, end) = pattern.split_once('*').unwrap();
    let made = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let found: Vec<String> = made.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    assert_eq!(found, [dist.package.file_name().unwrap().to_str().unwrap()], "{pattern}");
    for package in install::relations("Recommends").unwrap() {
        assert!(file.split_ascii_whitespace().any(|word| word == package), "{package} is not installed");
    }
    assert!(read("compose.yaml").contains(&format!("image: rekindle:{VERSION}\n")));
}

/// Exposure of the unit as systemd counts it, in tenths: 53 when this was written. Root and CAP_SYS_ADMIN, which the
/// jailer needs, are most of it.
const EXPOSURE: &str = "55";

#[test]
fn the_unit_is_what_systemd_understands_and_stays_hardened() {
    const NAME: &str = "dist::tests::the_unit_is_what_systemd_understands_and_stays_hardened";
    if !crate::setup::on_path("systemd-analyze") {
        rekindle_test_support::report_skip(NAME, "there is no systemd-analyze");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::create(dir.path().join("tree")).unwrap();
    let parts = parts(&dir.path().join("parts"));
    let prefix = dir.path().join("tree").display().to_string();
    layout::program(&tree, "", &prefix, &parts, "").unwrap();
    let unit = tree.root().join("lib/systemd/system/rekindle.service");
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    // A line it does not understand is left out with a word, and no failure.
    assert!(verified.status.success() && !said.contains("rekindle.service"), "{said}");
    let secure = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", &format!("--threshold={EXPOSURE}")])
        .arg(&unit)
        .output()
        .unwrap();
    assert!(secure.status.success(), "{}", String::from_utf8_lossy(&secure.stdout));
}

#[test]
fn the_wheel_is_one_that_pip_installs_without_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let wheel = wheel::build(VERSION, "1700000000", dir.path()).unwrap();
    assert_eq!(wheel, dir.path().join(format!("rekindle-{VERSION}-py3-none-any.whl")));
    let site = dir.path().join("site");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]).arg(&site);
    output(pip.arg(&wheel)).unwrap();
    for file in
        ["rekindle/py.typed", "rekindle/_sync.py", "rekindle/_async.py", "rekindle/adapters/openai_agents.py"]
    {
        assert!(site.join(file).exists(), "{file}");
    }
    let told = "import importlib.metadata as m; print(m.version('rekindle'), m.requires('rekindle')[0]); \
                print(*m.metadata('rekindle').get_all('Provides-Extra')); \
                print(*(p.value for p in m.distribution('rekindle').entry_points))";
    let told = output(Command::new("python3").env("PYTHONPATH", &site).args(["-c", told])).unwrap();
    let told = String::from_utf8(told).unwrap();
    let [about, extras, found] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!(about, format!("{VERSION} httpx>=0.27,<1"));
    assert!(extras.contains("openai-agents") && extras.contains("harbor"), "{extras}");
    assert_eq!(found, "rekindle.adapters.inspect_ai");
    let refused = format!("{:#}", wheel::build("9.9.9", "1700000000", dir.path()).unwrap_err());
    assert!(refused.contains("9.9.9"), "{refused}");
}

#[test]
fn the_npm_package_is_what_node_imports_and_the_bill_names_both_sdks() {
    let cache = Cache::open().unwrap();
    let compiler = match npm::compiler(&cache) {
        Ok(compiler) => compiler,
        Err(reason) => rekindle_test_support::skip!("no TypeScript: {reason:#}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let package = npm::build(&compiler, VERSION, "1700000000", dir.path()).unwrap();
    let first = hash::file(&package).unwrap();
    assert_eq!(package, dir.path().join(format!("rekindle-{VERSION}.tgz")));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    let again = npm::build(&compiler, VERSION, "1700000000", dir.path()).unwrap();
    assert_eq!(first, hash::file(&again).unwrap());

    // As npm lays it out.
    let modules = dir.path().join("node_modules");
    fs::create_dir(&modules).unwrap();
    output(Command::new("tar").arg("--extract").arg("--file").arg(&package).arg("--directory").arg(&modules))
        .unwrap();
    fs::rename(modules.join("package"), modules.join("rekindle")).unwrap();
    for file in ["README.md", "LICENSE", "package.json", "dist/index.d.ts", "dist/node.d.ts"] {
        assert!(modules.join("rekindle").join(file).exists(), "{file}");
    }
    let program = dir.path().join("program.mjs");
    fs::write(&program, "import { Sandbox } from 'rekindle'; import * as node from 'rekindle/node'; console.log(typeof Sandbox, typeof node);").unwrap();
    let said = output(Command::new("node").arg(&program)).unwrap();
    assert_eq!(String::from_utf8(said).unwrap(), "function object\n");
    let refused = format!("{:#}", npm::build(&compiler, "9.9.9", "1700000000", dir.path()).unwrap_err());
    assert!(refused.contains("9.9.9"), "{refused}");

    let sdks: [(&str, &Path); 2] = [("npm", &package), ("pypi", &program)];
    let bill = sbom::write(&parts(&dir.path().join("parts")), &sdks, VERSION, "1700000000").unwrap();
    assert!(bill.contains(&format!("\"pkg:npm/rekindle@{VERSION}\"")) && bill.contains(&first), "{bill}");
    assert!(bill.contains(&format!("\"pkg:pypi/rekindle@{VERSION}\"")), "{bill}");
}
