//! Names of installed packages, of modules and of time zones that are like one that is not there.

mod standard;

use self::standard::{NODE, PYTHON};

/// Names that are told.
const MOST: usize = 3;
/// Longest name that is compared.
const MAX_NAME: usize = 64;
/// Modules of Python that are not called as their package is.
const MODULES: [(&str, &str); 16] = [
    ("Crypto", "pycryptodome"),
    ("OpenSSL", "pyopenssl"),
    ("PIL", "pillow"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "pymupdf"),
    ("git", "gitpython"),
    ("jwt", "pyjwt"),
    ("pptx", "python-pptx"),
    ("sklearn", "scikit-learn"),
    ("skimage", "scikit-image"),
    ("yaml", "pyyaml"),
];

/// Commands that are not called as their npm package is.
const COMMANDS: [(&str, &str); 1] = [("tsc", "typescript")];

/// The package that has this module, where it is called otherwise.
pub(super) fn package_of(module: &str) -> Option<&'static str> {
    let top = module.split('.').next()?;
    MODULES.into_iter().find(|(name, _)| *name == top).map(|(_, package)| package)
}

/// The Python packages of an image.
pub(super) fn installed(packages: &[String]) -> impl Iterator<Item = &str> {
    packages.iter().filter_map(|package| package.strip_prefix("pip:")).filter_map(name)
}

/// The npm packages of an image, which are installed globally. An image that was made before they were listed has none.
pub(super) fn installed_npm(packages: &[String]) -> impl Iterator<Item = &str> {
    packages.iter().filter_map(|package| package.strip_prefix("npm:")).filter_map(name)
}

/// Python modules that may have been meant: of packages of the image, or else of the standard library.
pub(super) fn modules(module: &str, packages: &[String]) -> Vec<String> {
    let top = module.split('.').next().unwrap_or(module);
    let there = |package: &str| installed(packages).any(|installed| normal(installed) == normal(package));
    // A package that is there, by its own name instead of its module's.
    let own = MODULES.into_iter().find(|(_, package)| normal(package) == normal(top));
    if let Some((module, package)) = own
        && there(package)
    {
        return vec![module.to_owned()];
    }
    let called = MODULES.into_iter().filter(|(_, package)| there(package)).map(|(module, _)| module);
    let found = nearest(top, installed(packages).chain(called));
    // Many of the language's own are called nearly like something else.
    if found.is_empty() { nearest(top, PYTHON.into_iter()) } else { found }
}

/// Node modules that may have been meant: Node's own, or global packages of the image.
pub(super) fn node_modules(module: &str, packages: &[String]) -> Vec<String> {
    let module = module.strip_prefix("node:").unwrap_or(module);
    nearest(package_of_node(module), NODE.into_iter().chain(installed_npm(packages)))
}

/// The package of a module: `lodash` of `lodash/fp`, `@a/b` of `@a/b/c`.
pub(super) fn package_of_node(module: &str) -> &str {
    let parts = if module.starts_with('@') { 2 } else { 1 };
    module.match_indices('/').nth(parts - 1).map_or(module, |(at, _)| &module[..at])
}

/// Packages of an image, Debian's and npm's, that are called nearly so.
pub(super) fn commands(command: &str, packages: &[String]) -> Vec<String> {
    let command = command.rsplit('/').next().unwrap_or(command);
    let debian =
        packages.iter().filter(|package| !package.starts_with("pip:") && !package.starts_with("npm:"));
    let called =
        |package| COMMANDS.into_iter().find(|(_, own)| *own == package).map_or(package, |(name, _)| name);
    nearest(command, debian.filter_map(|package| name(package)).chain(installed_npm(packages).map(called)))
}

/// Time zones that may have been meant: their cities are called nearly so, in whichever part of the world, or they are in
/// the one that was named.
pub(in crate::service) fn timezones(wanted: &str, names: &[String]) -> Vec<String> {
    fn city(name: &str) -> &str {
        name.rsplit('/').next().unwrap_or(name)
    }
    let cities = nearest(city(wanted), names.iter().map(|name| city(name)));
    let near = cities.iter().flat_map(|near| names.iter().filter(move |name| city(name) == near));
    let within =
        names.iter().filter(|name| name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/')));
    let found: Vec<String> = near.take(MOST).cloned().collect();
    if found.is_empty() { within.take(MOST).cloned().collect() } else { found }
}

fn name(package: &str) -> Option<&str> {
    package.split(' ').next().filter(|name| !name.is_empty())
}

fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// The names that are like this one, the most like it first.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if wanted.is_empty() || wanted.len() > MAX_NAME {
        return Vec::new();
    }
    let wanted = normal(wanted);
    let most = wanted.chars().count() / 3;
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= MAX_NAME && name.len().abs_diff(wanted.len()) <= most)
        .map(|name| (distance(&wanted, &normal(name)), name))
        .filter(|(apart, _)| *apart <= most)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

/// How many characters must be put in, left out, exchanged or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut next = vec![i];
        for j in 1..=other.len() {
            let same = usize::from(one[i - 1] != other[j - 1]);
            let mut least = (row[j] + 1).min(next[j - 1] + 1).min(row[j - 1] + same);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Names that people and models write, and what they meant.

    use super::*;

    fn packages(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("{name} 1.0")).collect()
    }

    #[test]
    fn a_name_that_is_nearly_right_is_recognised() {
        let there = packages(&["pip:numpy", "pip:pandas", "pip:scikit-learn", "pip:six", "git", "gawk"]);
        for (wrong, right) in [
            ("nunpy", "numpy"),
            ("nmupy", "numpy"),
            ("panda", "pandas"),
            ("scikit_learm.svm", "scikit-learn"),
        ] {
            assert_eq!(modules(wrong, &there), [right], "{wrong}");
        }
        for strange in ["torch", "x", "", "git", &"n".repeat(10_000)] {
            assert!(modules(strange, &there).is_empty(), "{strange}");
        }
        assert_eq!(commands("/usr/bin/gti", &there), ["git"]);
    }

    #[test]
    fn what_a_language_has_by_itself_may_have_been_meant_too() {
        let nothing = packages(&[]);
        for (wrong, right) in [("jsno", "json"), ("maths", "math"), ("subproces.run", "subprocess")] {
            assert_eq!(modules(wrong, &nothing), [right], "{wrong}");
        }
        assert_eq!(modules("sklern", &packages(&["pip:scikit-learn"])), ["sklearn"]);
        assert!(modules("scipy", &nothing).is_empty());
        for (wrong, right) in [("fss", "fs"), ("node:crypt", "crypto"), ("htps/x", "https")] {
            assert_eq!(node_modules(wrong, &nothing), [right], "{wrong}");
        }
    }

    #[test]
    fn npm_packages_are_modules_and_commands_and_no_python() {
        let there = packages(&["git", "npm:typescript", "npm:pnpm", "npm:@types/node"]);
        assert_eq!(node_modules("typescritp", &there), ["typescript"]);
        assert_eq!(node_modules("@type/node/fs", &there), ["@types/node"]);
        assert_eq!(commands("pnmp", &there), ["pnpm"]);
        assert_eq!(commands("tcs", &there), ["tsc"]);
        assert!(modules("typescritp", &there).is_empty());
        for (module, package) in [("a/b", "a"), ("@a/b/c", "@a/b"), ("@a", "@a"), ("", ""), ("a", "a")] {
            assert_eq!(package_of_node(module), package);
        }
    }

    #[test]
    fn a_package_that_is_there_is_told_by_its_modules_name() {
        let there = packages(&["pip:pillow", "pip:PyYAML"]);
        assert_eq!(modules("pillow", &there), ["PIL"]);
        assert_eq!(modules("pyyaml", &there), ["yaml"]);
        assert_eq!(package_of("sklearn.svm"), Some("scikit-learn"));
        assert!(modules("scikit_learn", &there).is_empty());
    }

    #[test]
    fn distances_are_those_of_typing_errors() {
        for (one, other, apart) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("abc", "acb", 1),
            ("abc", "abd", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), apart, "{one} {other}");
        }
    }
}
