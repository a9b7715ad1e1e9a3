//! A page of the documents as it is packed: what its links lead to is elsewhere in an installed tree, or is not there.
//!
//! Called by `layout`. A link to what is packed leads to its place; of any other the text remains. Addresses with a scheme
//! are left alone.

use super::layout::place;
use crate::tidy::links;

/// The text of the page at `path` of the checkout.
pub fn packed(path: &str, text: &str) -> String {
    let mut page = text.to_owned();
    let targets = links::targets(text);
    // From the last one on, so that places before it stay what they are.
    for (_, target) in targets.into_iter().rev().filter(|(_, target)| !target.starts_with('#')) {
        let at = target.as_ptr() as usize - text.as_ptr() as usize;
        let (file, anchor) =
            target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let whole = joined(path.rsplit_once('/').map_or("", |(dir, _)| dir), file);
        match (place(path), place(&whole)) {
            (Some(from), Some(to)) => {
                let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
                page.replace_range(at..at + target.len(), &(relative(&from, &to) + &anchor));
            }
            _ => unlink(&mut page, at),
        }
    }
    page
}

/// Leaves the text of the link alone whose target begins at `at`.
fn unlink(page: &mut String, at: usize) {
    let (Some(label), Some(length)) = (page[..at].strip_suffix("]("), page[at..].find(')')) else { return };
    let mut depth = 0;
    let begin = label.rfind(|letter| {
        match letter {
            ']' => depth += 1,
            '[' if depth == 0 => return true,
            '[' => depth -= 1,
            _ => {}
        }
        false
    });
    if let Some(begin) = begin {
        let label = label[begin + 1..].to_owned();
        page.replace_range(begin..=at + length, &label);
    }
}

/// A path from a directory, without `.` and `..`.
fn joined(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The way from one file of a tree to another.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let dirs = &from[..from.len() - 1];
    let shared = dirs.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = dirs[shared..].iter().map(|_| "..");
    up.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    //! Links in a checkout and in an installed tree.

    use std::path::Path;

    use super::*;
    use crate::dist::layout::{self, PROTO, UNIT};
    use crate::dist::tree::{Mode, Tree};

    #[test]
    fn a_link_leads_to_where_the_package_has_the_thing_or_is_its_text() {
        for (path, text, expected) in [
            ("docs/guides/install.md", "[a](../api.md#b)", "[a](../api.md#b)"),
            ("docs/guides/install.md", "[e](../../examples/README.md), x", "[e](../examples/README.md), x"),
            ("examples/agent/README.md", "[d](../../docs/guides/data.md)", "[d](../../guides/data.md)"),
            ("docs/guides/json.md", "[`py` [1]](../../sdk/python/README.md#a) [b](#b)", "`py` [1] [b](#b)"),
            (
                "docs/lab.md",
                "[w](https://x.example/docs) `[c](../c.md)`",
                "[w](https://x.example/docs) `[c](../c.md)`",
            ),
            (
                "docs/a.md",
                "[u](../packaging/systemd/rekindle.service)",
                "[u](../../../lib/systemd/system/rekindle.service)",
            ),
        ] {
            assert_eq!(packed(path, text), expected, "{path}");
        }
    }

    #[test]
    fn every_relative_link_of_the_packed_documents_leads_to_something_packed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::create(dir.path().join("tree")).unwrap();
        layout::documents(&tree, "usr/").unwrap();
        for (_, place) in [UNIT, PROTO] {
            tree.write(&format!("usr/{place}"), Mode::Data, "").unwrap();
        }
        let mut followed = 0;
        for file in
            tree.files().unwrap().into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"))
        {
            let page = tree.root().join(&file);
            let text = std::fs::read_to_string(&page).unwrap();
            for (line, target) in links::targets(&text) {
                let target = target.split('#').next().unwrap();
                let to = page.parent().unwrap_or(Path::new("")).join(target);
                assert!(to.exists(), "{}:{line}: {target}", file.display());
                followed += 1;
            }
        }
        assert!(followed > 100, "{followed}");
    }
}
