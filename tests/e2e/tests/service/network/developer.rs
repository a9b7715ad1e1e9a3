//! The template for work on repositories: what people do with a checkout works through the gate. Its image is built on
//! demand, so this runs where somebody has built it.
//!
//! Repository, packages and archive are made by their own tools in the guest, before.

use rekindle_api::v1::Sandbox;
use rekindle_e2e::authority::Authority;
use rekindle_e2e::provisions;
use rekindle_e2e::site::Site;
use serde_json::json;

use super::gate::Gate;
use super::made::{made, npm_package};

const TEMPLATE: &str = "repositories";
const RECIPE: &str = r#"
description = "the image for work on repositories, not warmed up"
image = "developer"
vcpus = 2
memory_mib = 1024
scratch_mib = 1024
root = true
"#;

/// A repository with an extension in C, a Makefile, a package of npm's and tests of both.
const REPOSITORY: &str = r#"
git init -q work && cd work
cat > answer.c <<'END'
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *none) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "answer", 0, -1, methods};
PyMODINIT_FUNC PyInit_answer(void) { return PyModule_Create(&module); }
END
cat > pyproject.toml <<'END'
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "answer"
version = "1.0"
[project.scripts]
tell = "tell:main"
[tool.setuptools]
py-modules = ["tell"]
ext-modules = [{ name = "answer", sources = ["answer.c"] }]
END
printf 'import answer\ndef main(): print(answer.answer())\n' > tell.py
printf 'import unittest, answer\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(answer.answer(), 42)\n' > test_answer.py
printf 'hello: hello.c\n\t$(CC) -o $@ $<\n' > Makefile
printf '#include <stdio.h>\nint main(void) { puts("compiled"); }\n' > hello.c
cp ../package.json ../package-lock.json .
echo 'if (require("gatekeeper") !== "from a package") process.exit(1)' > test.js
git add . && git -c user.name=test -c user.email=test@example.com commit -qm first
git clone -q --bare . ../bare.git && cd ../bare.git && rm -rf hooks && git update-server-info
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_is_cloned_installed_built_and_tested_through_the_gate() {
    let lab = lab!();
    let source = match lab.source_of(TEMPLATE, RECIPE) {
        Ok(source) => source,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let backend = match backend() {
        Ok(backend) => backend,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    let _turn = lab.turn().await;
    std::fs::write(lab.recipes.join(format!("{TEMPLATE}.toml")), RECIPE).expect("written");
    source.build(&lab.host, &lab.store, &|_| {}).await.expect("the template is built");

    let authority = Authority::new();
    let names = ["github.com", "pypi.org", "files.pythonhosted.org", "registry.npmjs.org"];
    let (secure, archive) = (Site::secure(authority.server(&names)).await, Site::plain().await);
    let hosts: Vec<_> = names
        .iter()
        .map(|name| (*name, secure.address()))
        .chain([("deb.debian.org", archive.address())])
        .collect();
    let rules = "presets = [\"github\", \"pypi\", \"npm\", \"apt\"]";
    let gate = Gate::open(lab, TEMPLATE, rules, &hosts).await;
    let sandbox = gate.sandbox("test").await;
    gate.shell(&sandbox, "cat > ca.pem", authority.pem()).await.printed();
    let (name, wheel) = backend;
    secure.put(&format!("/packages/{name}"), "application/zip", wheel);
    let link = format!("<a href=\"https://files.pythonhosted.org/packages/{name}\">{name}</a>");
    secure.put("/simple/setuptools/", "text/html", format!("<!DOCTYPE html><body>{link}</body>"));
    npm_package(&gate, &sandbox, &secure).await;
    npm_project(&gate, &sandbox).await;
    for (path, file) in made(&gate, &sandbox, REPOSITORY).await {
        secure.put(&format!("/example/demo.git{path}"), "text/plain", file);
    }

    let certificates = "export GIT_SSL_CAINFO=~/ca.pem PIP_CERT=~/ca.pem NODE_EXTRA_CA_CERTS=~/ca.pem";
    let run =
        async |line: &str| gate.shell(&sandbox, &format!("{certificates} && {line}"), "").await.printed();
    run("git clone -q https://github.com/example/demo.git").await;
    assert_eq!(run("cd demo && pip install -q -e . >&2 && tell").await, "42");
    run("cd demo && python3 -m unittest -q").await;
    run("cd demo && npm ci --no-audit --no-fund --no-update-notifier >&2 && npm test >&2").await;
    assert_eq!(run("cd demo && make -s && ./hello").await, "compiled");

    // A package of Debian's, which root installs.
    let pack = "mkdir -p deb/DEBIAN deb/usr/bin archive/debian \
        && printf 'Package: greeter\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: test <test@example.com>\\nDescription: greets\\n' \
           > deb/DEBIAN/control \
        && printf '#!/bin/sh\\necho installed\\n' > deb/usr/bin/greeter && chmod 755 deb/usr/bin/greeter \
        && dpkg-deb --build --root-owner-group deb archive/debian/greeter.deb && cd archive \
        && dpkg-scanpackages debian > debian/Packages";
    for (path, file) in made(&gate, &sandbox, pack).await {
        archive.put(&path, "text/plain", file);
    }
    let ours = "deb [trusted=yes] http://deb.debian.org/ debian/";
    run(&format!("sudo rm /etc/apt/sources.list.d/* && echo '{ours}' | sudo tee /etc/apt/sources.list >&2"))
        .await;
    assert_eq!(
        run("sudo apt-get -qq update >&2 && sudo apt-get -qqy install greeter >&2 && greeter").await,
        "installed"
    );
    gate.close().await;
}

/// The files of a project that locks the package of npm's.
async fn npm_project(gate: &Gate, sandbox: &Sandbox) {
    let project = json!({ "name": "demo", "scripts": { "test": "node test.js" }, "dependencies": { "gatekeeper": "1.0.0" } });
    let resolved = "https://registry.npmjs.org/gatekeeper/-/gatekeeper-1.0.0.tgz";
    let locked = json!({
        "name": "demo",
        "lockfileVersion": 3,
        "packages": {
            "": { "name": "demo", "dependencies": { "gatekeeper": "1.0.0" } },
            "node_modules/gatekeeper": { "version": "1.0.0", "resolved": resolved },
        },
    });
    gate.shell(sandbox, "cat > package.json", &project.to_string()).await.printed();
    gate.shell(sandbox, "cat > package-lock.json", &locked.to_string()).await.printed();
}

/// The wheel of what builds the repository's package, and its name.
fn backend() -> Result<(String, Vec<u8>), String> {
    let dir = provisions::build_backend()?;
    let entry =
        dir.read_dir().map_err(|error| error.to_string())?.flatten().next().ok_or("pip left no wheel")?;
    let wheel = std::fs::read(entry.path()).map_err(|error| error.to_string())?;
    Ok((entry.file_name().to_string_lossy().into_owned(), wheel))
}
