//! Where Debian's packages come from: the mirrors this machine uses itself.

use std::process::Command;

/// One mirror for the release and its updates, one for security updates.
pub struct Mirrors {
    pub main: String,
    pub security: String,
}

/// `REKINDLE_MIRROR` and `REKINDLE_SECURITY_MIRROR`, else what apt uses here, else Debian's own.
pub fn mirrors() -> Mirrors {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let targets = index_targets();
    let main = set("REKINDLE_MIRROR").or_else(|| choose(&targets, "Debian"));
    let security = set("REKINDLE_SECURITY_MIRROR").or_else(|| choose(&targets, "Debian-Security"));
    Mirrors {
        main: main.unwrap_or_else(|| "http://deb.debian.org/debian".to_owned()),
        security: security.unwrap_or_else(|| "http://deb.debian.org/debian-security".to_owned()),
    }
}

/// What apt says about its package lists, one a line; nothing where it has none yet.
fn index_targets() -> String {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"])
        .arg("Created-By: Packages")
        .output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// The first mirror that carries what Debian signs under this label.
fn choose(targets: &str, label: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let [origin, its, component, uri] = line.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let plain = uri.starts_with("http://") || uri.starts_with("https://");
        let fits = origin == "Debian" && its == label && component == "main" && plain;
        fits.then(|| uri.trim_end_matches('/').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirrors_of_the_machine_are_taken_and_other_archives_are_not() {
        let targets = "Node Source|Node Source|main|https://node.test/node_20.x/\n\
            Debian|Debian|contrib|http://contrib.test/debian/\n\
            Debian|Debian|main|mirror+file:/etc/apt/mirrors/debian.list/\n\
            Debian|Debian|main|http://near.test/debian/\n\
            Debian|Debian-Security|main|https://near.test/debian-security/\n";
        assert_eq!(choose(targets, "Debian").unwrap(), "http://near.test/debian");
        assert_eq!(choose(targets, "Debian-Security").unwrap(), "https://near.test/debian-security");
    }

    #[test]
    fn another_distribution_has_no_mirror_of_debian() {
        assert_eq!(choose("Ubuntu|Ubuntu|main|http://archive.test/ubuntu/\n", "Debian"), None);
        assert_eq!(choose("", "Debian"), None);
    }
}
