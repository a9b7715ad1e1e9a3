//! What a program finds installed, in few words, from the list of an image's packages. Pure.

/// Packages of a language that are named; there may be hundreds.
const MOST: usize = 80;
/// Packages with commands that a model may want, by Debian's names. The others are libraries and what every Debian has.
const TOOLS: [&str; 43] = [
    "bash",
    "build-essential",
    "bzip2",
    "clang",
    "cmake",
    "coreutils",
    "curl",
    "default-jdk",
    "ffmpeg",
    "findutils",
    "g++",
    "gawk",
    "gcc",
    "git",
    "golang",
    "graphviz",
    "gzip",
    "imagemagick",
    "jq",
    "less",
    "make",
    "nodejs",
    "npm",
    "openssl",
    "pandoc",
    "patch",
    "perl",
    "poppler-utils",
    "postgresql-client",
    "procps",
    "python3-pip",
    "python3-venv",
    "ripgrep",
    "rsync",
    "ruby",
    "rustc",
    "sqlite3",
    "tar",
    "unzip",
    "wget",
    "xz-utils",
    "zip",
    "zstd",
];

/// What is installed, or `None` where the image does not tell.
pub(super) fn installed(packages: &[String]) -> Option<String> {
    if packages.is_empty() {
        return None;
    }
    let version = |name: &str| {
        packages
            .iter()
            .find_map(|package| package.split_once(' ').filter(|(own, _)| *own == name))
            .map(|(_, v)| v)
    };
    let mut parts = Vec::new();
    if let Some(python) = version("python3") {
        let libraries = of_language(packages, "pip:", "==");
        let libraries = match libraries.is_empty() {
            true => "its standard library and no other package".to_owned(),
            false => format!("its standard library and {}", libraries.join(", ")),
        };
        parts.push(format!("Python {} with {libraries}", upstream(python)));
    }
    if let Some(node) = version("node").or_else(|| version("nodejs")) {
        let mut node = format!("Node {}", upstream(node).trim_start_matches('v'));
        // An image that was made before they were listed has none.
        let global = of_language(packages, "npm:", "@");
        if !global.is_empty() {
            node.push_str(&format!(
                " with the npm packages {}, installed globally (their commands work; programs do not find them by name)",
                global.join(", ")
            ));
        }
        parts.push(node);
    }
    let tools: Vec<&str> = TOOLS.into_iter().filter(|tool| version(tool).is_some()).collect();
    if !tools.is_empty() {
        parts.push(format!("the Debian packages {}", tools.join(", ")));
    }
    Some(if parts.is_empty() { "neither Python nor Node".to_owned() } else { parts.join("; ") })
}

/// The packages of a language, with their versions.
fn of_language(packages: &[String], prefix: &str, joint: &str) -> Vec<String> {
    let mut found: Vec<String> = packages
        .iter()
        .filter_map(|package| package.strip_prefix(prefix))
        .map(|package| package.replacen(' ', joint, 1))
        .collect();
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    found
}

/// A version of Debian's as its makers know it: `1:2.47.3-0+deb13u1` is 2.47.3.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let version = version.split_once('-').map_or(version, |(version, _)| version);
    version.split_once('+').map_or(version, |(version, _)| version)
}

#[cfg(test)]
mod tests {
    //! What a model is told.

    use super::*;

    fn told(packages: &[&str]) -> String {
        installed(&packages.iter().map(|package| (*package).to_owned()).collect::<Vec<_>>())
            .expect("it tells")
    }

    #[test]
    fn versions_libraries_and_tools_are_named_and_nothing_else() {
        let packages = [
            "git 1:2.47.3-0+deb13u1",
            "libc6 2.41-12+deb13u4",
            "python3 3.13.5-1",
            "ripgrep 14.1.1-1+b4",
            "pip:numpy 2.4.6",
            "pip:pandas 3.1.1",
            "node v24.19.0",
        ];
        assert_eq!(
            told(&packages),
            "Python 3.13.5 with its standard library and numpy==2.4.6, pandas==3.1.1; Node 24.19.0; the \
             Debian packages git, ripgrep"
        );
    }

    #[test]
    fn npm_packages_are_named_where_the_image_lists_them() {
        assert_eq!(
            told(&["node v24.19.0", "npm:npm 11.6.2", "npm:typescript 5.9.3", "npm:@a/b 1.0"]),
            "Node 24.19.0 with the npm packages npm@11.6.2, typescript@5.9.3, @a/b@1.0, installed globally (their \
             commands work; programs do not find them by name)"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(installed(&[]), None, "an image that does not tell");
        assert_eq!(told(&["libc6 2.41"]), "neither Python nor Node");
        assert_eq!(
            told(&["python3 3.13.5-1", "nodejs 20.19.2+dfsg-1"]),
            "Python 3.13.5 with its standard library and no other package; Node 20.19.2; the Debian packages nodejs"
        );
    }

    #[test]
    fn a_long_list_has_an_end() {
        let mut packages = vec!["python3 3.13.5-1".to_owned()];
        packages.extend((0..500).map(|n| format!("pip:package{n} 1.0")));
        let told = installed(&packages).expect("it tells");
        assert!(told.contains("package79==1.0, 420 more") && told.len() < 3_000, "{told}");
    }
}
