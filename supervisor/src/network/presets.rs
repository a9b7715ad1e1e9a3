//! Ready rules for the registries that builds use most. Named by operators in their policies.
//!
//! A preset says what a package manager needs to *fetch*. Some of these hosts take uploads as well: whoever may push to
//! one of them can carry data out. docs/concepts/security.md says so.

use super::policy::Protocol;

/// One host of a preset.
pub(super) struct Host {
    pub(super) pattern: &'static str,
    pub(super) protocol: Protocol,
}

const fn tls(pattern: &'static str) -> Host {
    Host { pattern, protocol: Protocol::Tls }
}

const fn http(pattern: &'static str) -> Host {
    Host { pattern, protocol: Protocol::Http }
}

/// Every preset by its name.
const PRESETS: &[(&str, &[Host])] = &[
    // Debian's archives, whose packages are signed, over both protocols.
    (
        "apt",
        &[
            http("deb.debian.org"),
            tls("deb.debian.org"),
            http("security.debian.org"),
            tls("security.debian.org"),
        ],
    ),
    ("crates", &[tls("index.crates.io"), tls("static.crates.io"), tls("crates.io")]),
    (
        "github",
        &[
            tls("github.com"),
            tls("api.github.com"),
            tls("codeload.github.com"),
            tls("raw.githubusercontent.com"),
            tls("objects.githubusercontent.com"),
            tls("release-assets.githubusercontent.com"),
        ],
    ),
    ("npm", &[tls("registry.npmjs.org")]),
    ("pypi", &[tls("pypi.org"), tls("files.pythonhosted.org")]),
];

/// The hosts of a preset; `None` when there is none of this name.
pub(super) fn hosts(name: &str) -> Option<&'static [Host]> {
    PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, hosts)| *hosts)
}

/// The names there are, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}
