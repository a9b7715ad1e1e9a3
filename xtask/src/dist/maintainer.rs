//! Who stands behind the packages: whoever makes them says so, in the variables that Debian's own tools read.

use anyhow::{Result, ensure};

use crate::hint::Hint;

/// Somebody nobody can write to: packages that are made to be tried have no maintainer.
const NOBODY: &str = "Rekindle maintainers <maintainers@rekindle.invalid>";

/// Name and address, as control files and changelogs have them.
pub fn maintainer() -> Result<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    line(variable("DEBFULLNAME").as_deref(), variable("DEBEMAIL").as_deref())
}

fn line(name: Option<&str>, address: Option<&str>) -> Result<String> {
    match (name, address) {
        (None, None) => Ok(NOBODY.to_owned()),
        (Some(name), Some(address)) => {
            // Anything else would be a line, a field or an address of its own.
            let plain = |text: &str| !text.contains(|c: char| c.is_control() || "<>,".contains(c));
            let is_address = address.contains('@') && !address.contains(' ');
            (|| {
                ensure!(plain(name) && plain(address) && is_address, "{name:?} <{address}> is no maintainer");
                Ok(format!("{name} <{address}>"))
            })()
            .hint("DEBFULLNAME is a name and DEBEMAIL an address, both without `<`, `>` and commas")
        }
        _ => (|| {
            anyhow::bail!("half of a maintainer is named");
        })()
        .hint("set both DEBFULLNAME and DEBEMAIL, or neither"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_name_who_makes_them_or_nobody() {
        assert_eq!(line(None, None).unwrap(), NOBODY);
        assert_eq!(line(Some("A. Packager"), Some("a@example.com")).unwrap(), "A. Packager <a@example.com>");
        for (name, address) in [
            (Some("A"), None),
            (None, Some("a@example.com")),
            (Some("A"), Some("example.com")),
            (Some("A\nDepends: b"), Some("a@example.com")),
            (Some("A <x@example.com>, B"), Some("a@example.com")),
        ] {
            assert!(line(name, address).is_err(), "{name:?} {address:?}");
        }
    }
}
