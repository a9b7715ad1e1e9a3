//! What the tests' servers serve, made by its own tools in the guest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rekindle_api::v1::Sandbox;
use rekindle_e2e::site::Site;
use serde_json::json;

use super::gate::Gate;

/// Leaves a package for pip in the directory `wheel`, and goes there.
pub const WHEEL: &str = r#"mkdir wheel && cd wheel && python3 - <<'END'
import zipfile
with zipfile.ZipFile('gatekeeper-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('gatekeeper.py', 'word = "from a wheel"\n')
    info = 'gatekeeper-1.0.dist-info/'
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: gatekeeper\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    names = ['gatekeeper.py', info + 'METADATA', info + 'WHEEL', info + 'RECORD']
    wheel.writestr(info + 'RECORD', ''.join(f'{name},,\n' for name in names))
END"#;

/// Leaves the source of a package for npm in the directory `package`, and goes there.
pub const PACKAGE: &str = r#"mkdir package && cd package && echo 'module.exports = "from a package"' > index.js \
    && echo '{"name": "gatekeeper", "version": "1.0.0"}' > package.json"#;

/// Files that a line of the shell leaves in a directory of the guest, by their paths.
pub async fn made(gate: &Gate, sandbox: &Sandbox, line: &str) -> Vec<(String, Vec<u8>)> {
    let list = "find . -type f | while read -r file; do echo \"${file#.} $(base64 -w0 \"$file\")\"; done";
    let printed = gate.shell(sandbox, &format!("{{ {line}\n}} >&2 && {list}"), "").await.printed();
    let file = |text: &str| {
        // The last one may be empty, and what it printed has no spaces at its end.
        let (path, content) = text.split_once(' ').unwrap_or((text, ""));
        (path.to_owned(), STANDARD.decode(content).unwrap_or_else(|error| panic!("{error}: {text:?}")))
    };
    printed.lines().map(file).collect()
}

/// Packs [`PACKAGE`] and puts it into a site that stands for npm's registry.
pub async fn npm_package(gate: &Gate, sandbox: &Sandbox, registry: &Site) {
    let pack =
        format!("{PACKAGE} && mkdir ../packed && npm pack --pack-destination ../packed && cd ../packed");
    for (path, archive) in made(gate, sandbox, &pack).await {
        let path = format!("/gatekeeper/-{path}");
        let dist = json!({ "tarball": format!("https://registry.npmjs.org{path}") });
        let version = json!({ "name": "gatekeeper", "version": "1.0.0", "dist": dist });
        let about = json!({
            "name": "gatekeeper",
            "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": version },
        });
        registry.put("/gatekeeper", "application/json", about.to_string());
        registry.put(&path, "application/octet-stream", archive);
    }
}
